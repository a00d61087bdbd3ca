"""The interface of a policy, and steps that policies share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import Allocation, allocate_evenly
from fedrt.control.topology.components import LinkRule, links_by_part
from fedrt.control.topology.consensus import meets_limit
from fedrt.control.topology.links import best_links, finish_time_s
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.round import price
from fedrt.errors import InputError
from fedrt.graph import BoolMatrix
from fedrt.ledger import Books, Horizon
from fedrt.plan import Gossip, Plan, Status, plan_problems
from fedrt.system.plugins import own_code
from fedrt.validation import shown
from fedrt.world.observation import Backhaul, Observation

FloatArray = NDArray[np.float64]


class Policy(Protocol):
    """Decides one edge round from what is observed and what has been spent, never the future.

    A policy that remembers earlier rounds also has `begin(devices)`, which returns what it
    remembers before the first round of a fleet of so many devices. It changes nothing in itself:
    `plan` takes the memory and returns the next one with the plan. A memory is plain data: arrays,
    numbers, texts, None, and lists, tuples, tables and frozen dataclasses of these.
    """

    @property
    def name(self) -> str:
        """The name a user types."""
        ...

    @property
    def energy_horizon(self) -> Horizon:
        """How many edge rounds the rest of a budget is spread over: `paper` or `exact`."""
        ...

    @property
    def plan(self) -> Callable[..., Any]:
        """The plan for the coming edge round: `plan(seen, books) -> Plan`.

        With `begin`: `plan(seen, books, memory) -> (Plan, memory)`.
        """
        ...


def remembers(policy: Policy) -> bool:
    """Whether a policy's memory is handed from round to round."""
    return hasattr(policy, "begin")


def is_pure(policy: Policy) -> bool:
    """Whether nothing of earlier rounds is in the policy itself; a user's own may have it there."""
    return remembers(policy) or type(policy).__module__.startswith("fedrt.policies.")


def first_memory(policy: Policy, devices: int) -> Any:
    """What a policy remembers before the first round; None for one without a memory."""
    with own_code(f"policy {policy.name}"):
        return policy.begin(devices) if hasattr(policy, "begin") else None


Needs = frozenset[str]
"""What a policy needs beside what every policy gets: some of `NEEDS`."""

MENU = "menu"
"""`Observation.menu`, to choose the codec of every upload."""
CONTRACTION_LIMIT = "contraction_limit"
"""`Backhaul.contraction_limit`."""
REFERENCE = "reference"
"""`Books.reference`, the policy `fedrt` run beside it."""
NEEDS = {
    MENU: "chooses_codecs",
    CONTRACTION_LIMIT: "uses_contraction_limit",
    REFERENCE: "uses_reference",
}
"""Each need, and the flag by which policies said so before `needs`."""


def needs_of(policy: Policy) -> Needs:
    """What a policy names in `needs`, or asks for by an older flag."""
    named = frozenset(getattr(policy, "needs", ()))
    unknown = sorted(named - NEEDS.keys(), key=str)
    if unknown:
        known = ", ".join(NEEDS)
        raise InputError(f"policy {policy.name}: needs {shown(unknown[0])}: must be of {known}")
    return named | {need for need, flag in NEEDS.items() if getattr(policy, flag, False)}


def ask(
    policy: Policy, seen: Observation, books: Books, memory: Any = None, when: str = ""
) -> tuple[Plan, Any]:
    """The policy's plan, checked to be one that can be carried out, and its memory after it.

    `when` is for messages.
    """
    where = f"policy {policy.name}{when}"
    with own_code(where):
        if remembers(policy):
            plan, memory = policy.plan(seen, books, memory)
        else:
            plan = policy.plan(seen, books)
        problems = plan_problems(plan, seen)
    if problems:
        raise InputError([f"{where}: {line}" for line in problems])
    return plan, memory


Planning = Callable[[Any, Observation, Books, Any], tuple[Plan, Any]]


def with_memory(plan: Planning) -> Callable[..., Any]:
    """A `plan(seen, books, memory)` that may be called without a memory by policies that wrap it.

    It then returns the plan alone, and what is remembered of a run stays with the policy.
    """

    @wraps(plan)
    def either(policy: Any, seen: Observation, books: Books, *memory: Any) -> Any:
        if memory:
            return plan(policy, seen, books, *memory)
        before, pace = vars(policy).get("_memory"), books.pace(policy.energy_horizon)
        if before is None or pace is None or (seen.t, seen.r) == (0, 0):
            devices = int(seen.device.max(initial=-1)) + 1 if pace is None else pace.fleet_size
            before = policy.begin(devices)
        found, after = plan(policy, seen, books, before)
        object.__setattr__(policy, "_memory", after)  # the policy itself is frozen
        return found

    return either


def keep_all_links(
    finish_s: FloatArray, link_s: FloatArray, distance: FloatArray, limit: float
) -> BoolMatrix:
    """The link rule of policies that do not choose links: all of the base graph."""
    return np.isfinite(link_s)


def even_plan(
    seen: Observation,
    books: Books,
    horizon: Horizon,
    links: LinkRule,
    gossip_steps: int | None = None,
) -> Plan:
    """The plan with an even split, each device at the highest frequency it can afford."""
    return complete_plan(
        seen,
        books,
        allocate_evenly(seen, books.allowance_j(horizon)),
        links=links,
        allocation_is_optimal=False,
        gossip_steps=gossip_steps,
    )


def complete_plan(
    seen: Observation,
    books: Books,
    allocation: Allocation,
    *,
    links: LinkRule,
    allocation_is_optimal: bool,
    local_steps: NDArray[np.int64] | None = None,
    trains: NDArray[np.bool_] | None = None,
    gossip_steps: int | None = None,
) -> Plan:
    """The plan with an allocation, the links that a rule selects for it, and its status.

    `trains` says who trains, all by default; `gossip_steps` is the observation's by default.
    """
    if local_steps is None:
        local_steps = np.full(seen.num_devices, seen.local_steps, dtype=np.int64)
    steps = seen.gossip_steps if gossip_steps is None else gossip_steps

    def plan(status: Status, topology: BoolMatrix | None) -> Plan:
        return Plan(
            status=status,
            bandwidth_hz=allocation.bandwidth_hz,
            cpu_hz=allocation.cpu_hz,
            local_steps=local_steps,
            gossip=None if topology is None else Gossip(topology, steps),
            trains=trains,
            tx_power_w=allocation.tx_power_w,
        )

    allocation_is_optimal &= allocation.proven
    relaxed = bool(allocation.relaxed.any())
    backhaul = seen.backhaul
    if backhaul is None:
        return plan(_status(relaxed, allocation_is_optimal), None)
    finish_s = books.elapsed_s + price(plan("feasible", None), seen).edge_time_s
    link_s = link_time_s(seen.gossip_bits, steps, backhaul.bps, backhaul.latency_s)
    distance, limit = backhaul.consensus_distance, backhaul.consensus_limit
    topology = links_by_part(links, finish_s, link_s, distance, limit)
    relaxed |= not meets_limit(topology, distance, limit)
    proven = allocation_is_optimal and _no_links_are_faster(topology, finish_s, link_s, backhaul)
    return plan(_status(relaxed, proven), topology)


def _status(relaxed: bool, proven: bool) -> Status:
    if relaxed:
        return "best-effort"
    return "optimal" if proven else "feasible"


def _no_links_are_faster(
    topology: BoolMatrix, finish_s: FloatArray, link_s: FloatArray, backhaul: Backhaul
) -> bool:
    """Whether the exact search finds no faster links, which proves a plan `optimal`."""
    limits = (backhaul.consensus_distance, backhaul.consensus_limit)
    best = links_by_part(best_links, finish_s, link_s, *limits)
    return finish_time_s(topology, finish_s, link_s) <= finish_time_s(best, finish_s, link_s)
