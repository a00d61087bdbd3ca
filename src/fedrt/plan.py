"""The plan: what a policy decides for one edge round, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import is_connected, parts_of, same_parts
from fedrt.messages import GOSSIP_CODECS, LADDER, UNCOMPRESSED
from fedrt.quantities import GOSSIP_STEPS
from fedrt.scenario.sizes import message_bits
from fedrt.system.lazy import make_callable
from fedrt.validation import shown
from fedrt.world.observation import Backhaul, Observation

Status = Literal["optimal", "feasible", "best-effort"]

# What a plan may miss a bound by, relative: rounding in whatever computed it.
ROUNDING = 1e-9

# Below this an upload may take longer than float64 can say.
LEAST_HZ = 1e-100


@dataclass(frozen=True)
class Gossip:
    """How the edge servers mix their models at the end of a global round."""

    links: NDArray[np.bool_]
    """C x C, symmetric: which servers exchange models."""
    steps: int
    """How often every server averages with its neighbours."""
    weights: NDArray[np.float64] | None = None
    """C x C, of one step; None: those that the scenario's mixing rule gives the links."""
    codec: str | None = None
    """How models are sent: a name in `GOSSIP_CODECS`; None: as `learning.gossip` says."""
    relayed: bool = False
    """Whether servers pass models on: weights may then couple servers that a path connects."""
    sampled: bool = False
    """Whether the links are a sample, which need not connect the servers in a single round."""


@dataclass(frozen=True)
class Plan:
    """Which devices train in an edge round, their resources and steps, and perhaps the gossip."""

    status: Status
    """`optimal`: proven least round time. `feasible`: keeps every limit. `best-effort`: no plan,
    or none of this policy's kind, keeps every limit, and this one breaks at least one."""
    bandwidth_hz: NDArray[np.float64]
    cpu_hz: NDArray[np.float64]
    local_steps: NDArray[np.int64]
    gossip: Gossip | None = None
    """None before the last edge round of a global round."""
    trains: NDArray[np.bool_] | None = None
    """Per device: whether it trains in this edge round; None: every device does. A device that is
    left out trains nothing, sends nothing and spends nothing; its other entries mean nothing."""
    codec: NDArray[np.int64] | None = None
    """Per device: the codec of its upload, a place in `Observation.menu`; None: the scenario's."""
    tx_power_w: NDArray[np.float64] | None = None
    """Per device: the power of its radio while it sends; None: its full power. Only where
    `Laws.power_control` allows it."""

    @property
    def trained(self) -> NDArray[np.bool_]:
        """For each device, whether it trains, as an array even if all do."""
        return np.ones(len(self.cpu_hz), dtype=bool) if self.trains is None else self.trains


def gossip_codec(gossip: Gossip, seen: Observation) -> str:
    """The codec of a gossip: the plan's own, or the scenario's."""
    return seen.gossip_codec if gossip.codec is None else gossip.codec


def gossip_bits(gossip: Gossip, seen: Observation) -> float:
    """The bits that a server sends to a neighbour in one step of a gossip."""
    if gossip.codec is None:
        return seen.gossip_bits
    return coded_gossip_bits(gossip.codec, seen)


def coded_gossip_bits(codec: str, seen: Observation) -> float:
    """The bits that a server sends to a neighbour in one gossip step with a codec."""
    bits = message_bits(codec, seen.model_bits, seen.buffer_bits)
    return bits * seen.laws.header_factor


def plan_problems(plan: Plan, seen: Observation) -> list[str]:
    """One line for each reason why a plan cannot be carried out; budgets are not checked."""
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
    if plan.trains is not None:
        chosen: object = plan.trains
        shape = (seen.num_devices,)
        if not isinstance(chosen, np.ndarray) or chosen.dtype != np.bool_ or chosen.shape != shape:
            return [f"trains = {shown(chosen)}: must be None or a boolean array of shape {shape}"]
    lines += _codec_problems(plan, seen) + _power_problems(plan, seen)
    status: object = plan.status
    if not isinstance(status, str) or status not in get_args(Status):
        lines.append(f"status = {shown(status)}: must be one of {', '.join(get_args(Status))}")
    lines += _device_problems(plan, seen)
    return lines + _gossip_problems(plan.gossip, seen)


def _codec_problems(plan: Plan, seen: Observation) -> list[str]:
    """A line if the choice of codecs is not one from the menu."""
    chosen: object = plan.codec
    if chosen is None:
        return []
    if seen.menu is None:
        return ["codec: must be None where there is no menu of codecs"]
    count, shape = len(seen.menu.names), (seen.num_devices,)
    whole = isinstance(chosen, np.ndarray) and chosen.dtype.kind in "iu" and chosen.shape == shape
    if whole and bool(((chosen >= 0) & (chosen < count) | ~plan.trained).all()):  # type: ignore[operator]
        return []
    rule = f"None or whole numbers of shape {shape}, 0 to {count - 1} in the menu of codecs"
    return [f"codec = {shown(chosen)}: must be {rule}"]


def _power_problems(plan: Plan, seen: Observation) -> list[str]:
    """A line if the radios' powers are not ones that the scenario lets a plan choose."""
    chosen: object = plan.tx_power_w
    if chosen is None:
        return []
    if not seen.laws.power_control:
        return ["tx_power_w: must be None without power control"]
    shape, most = (seen.num_devices,), seen.tx_power_w * (1 + ROUNDING)
    floats = isinstance(chosen, np.ndarray) and chosen.dtype == np.float64 and chosen.shape == shape
    if floats and bool(((chosen > 0) & (chosen <= most) | ~plan.trained).all()):  # type: ignore[operator]
        return []
    rule = f"None or float64 of shape {shape}, above 0 and at most each device's full power"
    return [f"tx_power_w = {shown(chosen)}: must be {rule}"]


def upload_bits(plan: Plan, seen: Observation) -> NDArray[np.float64]:
    """The bits of each device's message under a plan; those of a device left out mean nothing."""
    if plan.codec is None or seen.menu is None:
        return seen.upload_bits
    chosen = np.where(plan.trained, plan.codec, 0)
    bits: NDArray[np.float64] = seen.menu.bits[chosen]
    if seen.least_bits is None:
        return bits
    whole = np.array(seen.menu.names)[chosen] == UNCOMPRESSED
    return np.where(whole, bits, np.maximum(bits, seen.least_bits))


def upload_codecs(plan: Plan, seen: Observation) -> NDArray[np.str_]:
    """The codec that each device uses, by name, where a plan chooses from a menu.

    A device that was stepped up uses the codec it was stepped up to, if its plan has fewer bits.
    Empty where a device is left out or the scenario says which codec.
    """
    if plan.codec is None or seen.menu is None:
        return np.full(seen.num_devices, "", dtype="U1")
    menu, chosen = seen.menu, np.where(plan.trained, plan.codec, 0)
    names = np.array(menu.names)[chosen]
    if seen.least_bits is not None:
        factor = seen.laws.header_factor
        # What every message has beside the parameters.
        more = menu.bits[0] / factor - message_bits(menu.names[0], seen.model_bits)
        ladder = np.array([message_bits(name, seen.model_bits) + more for name in LADDER])
        place = np.abs(seen.least_bits[:, None] - ladder * factor).argmin(axis=1)
        up = (seen.least_bits > menu.bits[chosen]) & (names != UNCOMPRESSED)
        names = np.where(up, np.array(LADDER)[place], names)
    return np.where(plan.trained, names, "")


def _device_problems(plan: Plan, seen: Observation) -> list[str]:
    """One line for each invalid value of a device that trains."""
    lines, out = [], ~plan.trained
    usable = np.isfinite(plan.bandwidth_hz) & (plan.bandwidth_hz > LEAST_HZ)
    used_hz = np.where(out, 0.0, plan.bandwidth_hz)
    if not (usable | out).all():
        lines.append("bandwidth_hz: must be finite and > 0")
    elif (seen.sum_by_edge(used_hz) > seen.edge_bandwidth_hz * (1 + ROUNDING)).any():
        lines.append("bandwidth_hz: must add up to no more than its edge's bandwidth")
    elif seen.laws.block_hz is not None:
        blocks = used_hz / seen.laws.block_hz
        if not (np.abs(blocks - np.rint(blocks)) <= ROUNDING * np.maximum(blocks, 1.0)).all():
            rule = f"whole blocks of block_hz = {seen.laws.block_hz:g}"
            lines.append(f"bandwidth_hz: must be {rule}")
    low, high = seen.cpu_min_hz * (1 - ROUNDING), seen.cpu_max_hz * (1 + ROUNDING)
    if not ((plan.cpu_hz >= low) & (plan.cpu_hz <= high) | out).all():
        lines.append("cpu_hz: must lie from cpu_min_hz to cpu_max_hz")
    if not ((plan.local_steps >= 1) | out).all():
        lines.append("local_steps: must be >= 1")
    return lines


def _gossip_problems(gossip: Gossip | None, seen: Observation) -> list[str]:
    if seen.backhaul is None:
        return [] if gossip is None else ["gossip: must be None before the last edge round"]
    given: object = gossip
    if gossip is None or not isinstance(given, Gossip):
        return [f"gossip = {shown(given)}: must be a fedrt.plan.Gossip in the last edge round"]
    steps: object = gossip.steps
    whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool)
    lines = []
    if not whole or not 1 <= gossip.steps <= GOSSIP_STEPS.most:
        rule = f"a whole number from 1 to {GOSSIP_STEPS.most}"
        lines.append(f"gossip.steps = {shown(steps)}: must be {rule}")
    codec: object = gossip.codec
    if codec is not None and not (isinstance(codec, str) and codec in GOSSIP_CODECS):
        rule = f"None or one of {', '.join(GOSSIP_CODECS)}"
        lines.append(f"gossip.codec = {shown(codec)}: must be {rule}")
    if gossip.relayed and gossip_codec(gossip, seen) != "none":
        lines.append("gossip.relayed: models are passed on as they are: needs the codec none")
    return lines + (_link_problems(gossip, seen.backhaul) or _weight_problems(gossip))


def _link_problems(gossip: Gossip, backhaul: Backhaul) -> list[str]:
    links, shape = gossip.links, backhaul.bps.shape
    given: object = links
    if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype != np.bool_:
        return [f"gossip.links: must be a boolean array of the shape {shape}"]
    if not np.array_equal(links, links.T) or (links & ~backhaul.base_graph).any():
        return ["gossip.links: must be symmetric and inside the base graph"]
    if gossip.sampled or is_connected(links) or same_parts(links, backhaul.base_graph):
        return []
    if is_connected(backhaul.base_graph):
        return ["gossip.links: must connect all edge servers"]
    return ["gossip.links: must connect all servers of each part of the base graph"]


def _weight_problems(gossip: Gossip) -> list[str]:
    weights, links = gossip.weights, gossip.links
    if weights is None:
        return []
    given: object = weights
    if (
        not isinstance(given, np.ndarray)
        or given.shape != links.shape
        or given.dtype != np.float64
        or not np.isfinite(given).all()
    ):
        shape = links.shape
        return [f"gossip.weights: must be None or an array of finite float64 of the shape {shape}"]
    lines = []
    if not np.array_equal(weights, weights.T):
        lines.append("gossip.weights: must be symmetric")
    if not (np.abs(weights.sum(axis=1) - 1.0) <= ROUNDING).all():
        lines.append("gossip.weights: every row must sum to one")
    joined = _joined(links) if gossip.relayed else links
    if weights[~joined & ~np.eye(len(links), dtype=bool)].any():
        lines.append("gossip.weights: must be zero between servers that are not linked")
    return lines


def _joined(links: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pairs of servers that a path connects."""
    joined = np.zeros_like(links)
    for part in parts_of(links):
        joined[np.ix_(part, part)] = True
    return joined


make_callable(__name__)
