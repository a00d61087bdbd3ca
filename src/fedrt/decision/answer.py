"""The plan of a policy for one round, as JSON data (docs/plan.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.limits import broken_limits
from fedrt.control.topology.consensus import meets_limit, unlinked_distance
from fedrt.cost.round import global_round_time_s, price
from fedrt.decision.state import RoundState, read_state
from fedrt.errors import InfeasibleError, InputError
from fedrt.graph import links_of
from fedrt.ledger import overspend_j
from fedrt.plan import Gossip, Plan
from fedrt.policies import Policy, make_policy
from fedrt.policies.base import ask, first_memory
from fedrt.rounds import RoundCost

FloatArray = NDArray[np.float64]


def plan_round(
    state: RoundState | Mapping[str, Any], policy: str | Policy = "fedrt", *, strict: bool = False
) -> dict[str, Any]:
    """The plan of a policy for one round, as JSON data (docs/plan.md).

    `strict` raises InfeasibleError where the plan would break a limit.
    """
    if not isinstance(state, RoundState):
        state = read_state(state)
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    plan, _ = ask(chosen, state.seen, state.books, first_memory(chosen, len(state.seen.device)))
    return answer_of(state, chosen, plan, strict=strict)


def answer_of(
    state: RoundState, chosen: Policy, plan: Plan, *, strict: bool = False
) -> dict[str, Any]:
    """A policy's plan for a state, as JSON data; errors as those of `plan_round`."""
    if chosen.name == "mll-sgd" and not state.local_steps_given:
        raise InputError("state.local_steps: missing; the policy mll-sgd needs it")
    if state.schema_version == 1:
        _refuse_newer(chosen, plan)
    cost = price(plan, state.seen)
    if strict:
        _refuse_broken(state, chosen, plan, cost)
    return _answer(state, chosen, plan, cost)


def _refuse_newer(policy: Policy, plan: Plan) -> None:
    """Raise an error if the answer to a state of schema version 1 cannot say what is planned."""
    does = None
    if not plan.trained.all():
        does = "leaves devices out of the round"
    elif plan.codec is not None:
        does = "chooses the codecs of uploads"
    elif plan.gossip is not None and plan.gossip.codec is not None:
        does = "chooses the codec of the gossip"
    if does is not None:
        raise InputError(
            f"policy {policy.name} {does}, which the answer to a state of schema version 1 cannot"
            ' say; add "schema_version": 2 to the state'
        )


def _refuse_broken(state: RoundState, policy: Policy, plan: Plan, cost: RoundCost) -> None:
    """Raise an error if the plan breaks a limit, whatever status its policy gives it."""
    own = _own_breaches(state, policy, plan, cost)
    if plan.status != "best-effort" and not own:
        return
    lines = broken_limits(
        state.seen,
        state.books.allowance,
        plan,
        _allowance_name,
        "state.consensus_limit",
        "state.contraction_limit",
    )
    raise InfeasibleError(lines or own or f"policy {policy.name} calls its plan best-effort")


def _own_breaches(state: RoundState, policy: Policy, plan: Plan, cost: RoundCost) -> list[str]:
    """One line for every limit that this plan breaks, though another plan might keep it."""
    seen, allowance_j = state.seen, state.books.allowance
    lines = []
    for n in np.flatnonzero(_over_j(state, plan, cost)).tolist():
        c = int(seen.edge_of_device[n])
        name = _allowance_name(c, n - int(seen.first_device[c]))
        spent = f"policy {policy.name} spends {cost.energy_j[n]:.6g} J"
        lines.append(f"{name} = {allowance_j[n]:.6g}: {spent}")
    backhaul = seen.backhaul
    if backhaul is not None and plan.gossip is not None:
        distance, limit = backhaul.consensus_distance, backhaul.consensus_limit
        if not meets_limit(plan.gossip.links, distance, limit):
            left = unlinked_distance(plan.gossip.links, distance)
            lines.append(
                f"state.consensus_limit = {limit:.6g}: policy {policy.name} leaves {left:.6g}"
                " unlinked"
            )
    return lines


def _over_j(state: RoundState, plan: Plan, cost: RoundCost) -> FloatArray:
    """For each device, the joules beyond its allowance; 0 for one that is left out."""
    over_j = overspend_j(cost.energy_j, state.books.allowance)
    return np.where(plan.trained, over_j, 0.0)


def _allowance_name(c: int, i: int) -> str:
    return f"state.edges[{c}].devices[{i}].energy_allowance_j"


def _answer(state: RoundState, policy: Policy, plan: Plan, cost: RoundCost) -> dict[str, Any]:
    """The plan and its cost in the form of docs/plan.md."""
    seen, trained = state.seen, plan.trained
    steps: Sequence[int | None] = np.where(trained, plan.local_steps, 0).tolist()
    if not state.local_steps_given:
        steps = [None] * seen.num_devices
    newer = state.schema_version >= 2
    columns: dict[str, Sequence[Any]] = {"trains": trained.tolist()} if newer else {}
    if plan.codec is not None and seen.menu is not None:
        names, chosen = seen.menu.names, plan.codec.tolist()
        columns["codec"] = [
            names[m] if trains else None for m, trains in zip(chosen, trained, strict=True)
        ]
    columns |= {
        "bandwidth_hz": np.where(trained, plan.bandwidth_hz, 0.0).tolist(),
        "cpu_hz": np.where(trained, plan.cpu_hz, 0.0).tolist(),
        "local_steps": steps,
        **_law_columns(state, plan, cost),
        "upload_s": cost.upload_s.tolist(),
        "compute_s": cost.compute_s.tolist(),
        "energy_j": cost.energy_j.tolist(),
        "over_budget_j": _over_j(state, plan, cost).tolist(),
    }
    devices = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    first = seen.first_device.tolist()
    edges = [
        {
            "time_s": float(cost.edge_time_s[c]),
            "backhaul_s": float(cost.backhaul_s[c]),
            "devices": devices[first[c] : first[c + 1]],
        }
        for c in range(seen.num_edges)
    ]
    time_s = global_round_time_s(state.books.elapsed_s, cost)
    answer = {"policy": policy.name, "status": plan.status, "round_time_s": time_s}
    gossip = _gossip(plan.gossip)
    if newer:
        version = {"schema_version": state.schema_version}
        return version | answer | {"edges": edges, "gossip": gossip}
    return answer | {
        "gossip_steps": seen.gossip_steps if gossip is None else gossip["steps"],
        "edges": edges,
        "topology": None if gossip is None else gossip["links"],
        "mixing": None if gossip is None else gossip["weights"],
    }


def _law_columns(state: RoundState, plan: Plan, cost: RoundCost) -> dict[str, Sequence[Any]]:
    """What devices have beyond the paper's physical layer."""
    laws, columns = state.seen.laws, {}
    if laws.power_control:
        power_w = state.seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
        columns["tx_power_w"] = np.where(plan.trained, power_w, 0.0)
    if laws.listen_s is not None:
        columns |= {"download_s": cost.download_s, "download_j": cost.download_j}
    if laws.idle_power_w is not None:
        columns["idle_j"] = cost.idle_j
    return {name: values.tolist() for name, values in columns.items()}


def _gossip(gossip: Gossip | None) -> dict[str, Any] | None:
    """The gossip as JSON data, each link as a pair; None before the last edge round."""
    if gossip is None:
        return None
    return {
        "links": np.stack(links_of(gossip.links), axis=1).tolist(),
        "steps": int(gossip.steps),
        "weights": None if gossip.weights is None else gossip.weights.tolist(),
    } | ({} if gossip.codec is None else {"codec": gossip.codec})
