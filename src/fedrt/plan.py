"""What a policy decides for one edge round: plain data, priced by `cost`, executed by an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedrt.checks import shown
from fedrt.graph import is_connected, same_parts
from fedrt.quantities import GOSSIP_STEPS
from fedrt.world.observation import Observation

Status = Literal["optimal", "feasible", "best-effort"]

# What a plan may miss a bound by, relative: rounding in whatever computed it.
ROUNDING = 1e-9

# Below this an upload may take longer than float64 can say.
LEAST_HZ = 1e-100


@dataclass(frozen=True)
class Plan:
    """Bandwidth, frequency and steps of every device; links and gossip in the last edge round."""

    status: Status
    """`optimal`: proven least round time. `feasible`: keeps every limit. `best-effort`: no plan,
    or none of this policy's kind, keeps every limit, and this one breaks at least one."""
    bandwidth_hz: NDArray[np.float64]
    cpu_hz: NDArray[np.float64]
    local_steps: NDArray[np.int64]
    gossip_steps: int
    topology: NDArray[np.bool_] | None = None
    """C x C adjacency of the links to use; None before the last edge round."""
    mixing: NDArray[np.float64] | None = None
    """C x C weights of one gossip step; None: those that the scenario's rule gives the links."""


def plan_problems(plan: Plan, seen: Observation) -> list[str]:
    """What makes a plan impossible to carry out, a line each; budgets are not looked at."""
    if not isinstance(plan, Plan):
        return [f"returned {shown(plan)}: must be a fedrt.plan.Plan"]
    lines = []
    for name, kinds in (("bandwidth_hz", "f"), ("cpu_hz", "f"), ("local_steps", "iu")):
        values = getattr(plan, name)
        good = isinstance(values, np.ndarray) and values.dtype.kind in kinds
        if not good or values.dtype.itemsize > 8:
            what = "whole numbers" if name == "local_steps" else "floats, 64 bit at most"
            lines.append(f"{name} = {shown(values)}: must be a numpy array of {what}")
        elif values.shape != (seen.num_devices,):
            lines.append(f"{name} has the shape {values.shape}: must be ({seen.num_devices},)")
    if lines:
        return lines
    status: object = plan.status
    if not isinstance(status, str) or status not in get_args(Status):
        lines.append(f"status = {shown(status)}: must be one of {', '.join(get_args(Status))}")
    if not (np.isfinite(plan.bandwidth_hz) & (plan.bandwidth_hz > LEAST_HZ)).all():
        lines.append("bandwidth_hz: must be finite and > 0")
    elif (seen.sum_by_edge(plan.bandwidth_hz) > seen.edge_bandwidth_hz * (1 + ROUNDING)).any():
        lines.append("bandwidth_hz: must add up to no more than its edge's bandwidth")
    low, high = seen.cpu_min_hz * (1 - ROUNDING), seen.cpu_max_hz * (1 + ROUNDING)
    if not ((plan.cpu_hz >= low) & (plan.cpu_hz <= high)).all():
        lines.append("cpu_hz: must lie from cpu_min_hz to cpu_max_hz")
    if not (plan.local_steps >= 1).all():
        lines.append("local_steps: must be >= 1")
    gossip: object = plan.gossip_steps
    whole = isinstance(gossip, int | np.integer) and not isinstance(gossip, bool)
    if not whole or not 1 <= plan.gossip_steps <= GOSSIP_STEPS.most:
        rule = f"a whole number from 1 to {GOSSIP_STEPS.most}"
        lines.append(f"gossip_steps = {shown(gossip)}: must be {rule}")
    problems = _topology_problems(plan.topology, seen)
    return lines + (problems or _mixing_problems(plan))


def _topology_problems(topology: NDArray[np.bool_] | None, seen: Observation) -> list[str]:
    if seen.backhaul is None:
        return [] if topology is None else ["topology: must be None before the last edge round"]
    shape = seen.backhaul.bps.shape
    if (
        not isinstance(topology, np.ndarray)
        or topology.shape != shape
        or topology.dtype != np.bool_
    ):
        return [f"topology: must be a boolean array of the shape {shape} in the last edge round"]
    if not np.array_equal(topology, topology.T) or (topology & ~seen.backhaul.base_graph).any():
        return ["topology: must be symmetric and inside the base graph"]
    if is_connected(topology) or same_parts(topology, seen.backhaul.base_graph):
        return []
    if is_connected(seen.backhaul.base_graph):
        return ["topology: must connect all edge servers"]
    return ["topology: must connect all servers of each part of the base graph"]


def _mixing_problems(plan: Plan) -> list[str]:
    mixing, topology = plan.mixing, plan.topology
    if mixing is None:
        return []
    if topology is None:
        return ["mixing: must be None before the last edge round"]
    given: object = mixing
    shape = topology.shape
    if (
        not isinstance(given, np.ndarray)
        or given.shape != shape
        or given.dtype != np.float64
        or not np.isfinite(given).all()
    ):
        return [f"mixing: must be None or an array of finite float64 of the shape {shape}"]
    lines = []
    if not np.array_equal(mixing, mixing.T):
        lines.append("mixing: must be symmetric")
    if not (np.abs(mixing.sum(axis=1) - 1.0) <= ROUNDING).all():
        lines.append("mixing: every row must sum to one")
    if mixing[~topology & ~np.eye(len(topology), dtype=bool)].any():
        lines.append("mixing: must be zero between servers that the topology does not link")
    return lines
