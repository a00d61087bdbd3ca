"""Messages that say which limits a plan breaks, and what each would have needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import FITS, least_energy_j
from fedrt.control.mixing.weights import contraction
from fedrt.control.topology.consensus import unlinked_distance
from fedrt.cost.round import price
from fedrt.plan import Plan
from fedrt.world.observation import Backhaul, Observation

FloatArray = NDArray[np.float64]


def broken_limits(
    seen: Observation,
    allowance_j: FloatArray,
    plan: Plan,
    name_allowance: Callable[[int, int], str],
    name_limit: str,
    name_contraction: str,
) -> list[str]:
    """One line for each energy allowance and each limit on mixing that a plan cannot keep.

    In a cluster that cannot keep all allowances some device lies below what f_min and an even
    share of the bandwidth take: were there none, the even split at f_min would keep them all.
    A device that the plan leaves out breaks nothing.
    `name_allowance` gets an edge and the device's place in it.
    """
    trained = plan.trained
    steps = np.where(trained, plan.local_steps, seen.local_steps)
    least_j = least_energy_j(replace(seen, cycles=seen.cycles * (steps / seen.local_steps)))
    over = trained & (price(plan, seen).energy_j > allowance_j + FITS * np.abs(allowance_j))
    broken = seen.sum_by_edge(over.astype(np.float64))[seen.edge_of_device] > 0
    lines = []
    for n in np.flatnonzero(trained & broken & (allowance_j < least_j)).tolist():
        c = int(seen.edge_of_device[n])
        lines.append(
            f"{name_allowance(c, n - int(seen.first_device[c]))} = {allowance_j[n]:.6g}:"
            f" cpu_min_hz and an even share of the bandwidth take {least_j[n]:.6g} J; allow"
            f" {least_j[n] - allowance_j[n]:.6g} J more, lower cpu_min_hz, or raise its edge's"
            " bandwidth"
        )
    if seen.backhaul is not None:
        limit = seen.backhaul.consensus_limit
        left = unlinked_distance(seen.backhaul.base_graph, seen.backhaul.consensus_distance)
        if left > limit:
            lines.append(
                f"{name_limit} = {limit:.6g}: even with every link the base graph leaves"
                f" {left:.6g} unlinked; raise the limit or add links"
            )
        lines += _contraction_lines(seen.backhaul, plan, name_contraction)
    return lines


def _contraction_lines(backhaul: Backhaul, plan: Plan, name: str) -> list[str]:
    """A line if a plan with mixing weights of its own breaks the contraction limit, else none."""
    limit = backhaul.contraction_limit
    gossip = plan.gossip
    if limit is None or gossip is None or gossip.weights is None:
        return []
    left = contraction(gossip.weights) ** gossip.steps
    if left <= limit:
        return []
    return [
        f"{name} = {limit:.6g}: even every link and {gossip.steps} gossip steps leave"
        f" {left:.6g} of the distance; raise the limit or gossip_steps, or add links"
    ]
