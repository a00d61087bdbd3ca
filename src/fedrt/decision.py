"""One decision: the state of a round as JSON data in, the plan as JSON data out.

The contract is in docs/plan.md. `read_state` checks everything once; `plan_round` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.control.allocation.limits import broken_limits
from fedrt.control.coding.menu import make_menu
from fedrt.control.topology.consensus import meets_limit, unlinked_distance
from fedrt.cost.round import global_round_time_s, price
from fedrt.errors import InfeasibleError, InputError, reason
from fedrt.graph import is_connected, links_of
from fedrt.ledger import GivenAllowance, overspend_j
from fedrt.plan import Gossip, Plan
from fedrt.policies import Policy, make_policy
from fedrt.policies.base import ask
from fedrt.rounds import RoundCost
from fedrt.scenario.model import CHOOSABLE
from fedrt.scenario.tables.fields import word_or
from fedrt.system.inputs import parse_json, read_text
from fedrt.units import linear_from_db
from fedrt.validation import Listed, Maybe, OneOf, Real, Rule, Whole, keys_of, problem
from fedrt.world.observation import Backhaul, Menu, Observation

FloatArray = NDArray[np.float64]

STATE_FIELDS: dict[str, Rule] = {"model_bits": q.MODEL_BITS, "gossip_steps": q.GOSSIP_STEPS}
EDGE_FIELDS: dict[str, Rule] = {"bandwidth_hz": q.BANDWIDTH_HZ, "elapsed_s": q.SECONDS}
DEVICE_FIELDS: dict[str, Rule] = {
    "cycles": q.CYCLES,
    "snr_db": q.SNR_DB,
    "tx_power_w": q.TX_POWER_W,
    "capacitance": q.CAPACITANCE,
    "cpu_min_hz": q.CPU_HZ,
    "cpu_max_hz": q.CPU_HZ,
    "energy_allowance_j": Maybe(q.ENERGY_J),
}
BACKHAUL_FIELDS = ("backhaul_bps", "consensus_distance", "consensus_limit")
SCHEMA_VERSIONS = (1, 2)
OPTIONAL_FIELDS: dict[str, Rule] = {
    "schema_version": Whole(*SCHEMA_VERSIONS),
    "local_steps": q.LOCAL_STEPS,
    "contraction_limit": Real(above=0, most=1),
    "gossip_bits": q.MODEL_BITS,
    "buffer_bits": q.MORE_BITS,
    "codecs": Listed(OneOf(CHOOSABLE), 1, 16),
    "distortion_limit": word_or(CHOOSABLE, Real(least=0, most=1)),
}


@dataclass(frozen=True)
class RoundState:
    """A checked state: the observation, and the allowances that a policy plans with."""

    seen: Observation
    books: GivenAllowance
    local_steps_given: bool
    """Whether the state gives the number of local steps behind `cycles`."""
    contraction_limit_given: bool = False
    schema_version: int = 1
    """The version of the answer's form."""


def load_state(path: str | Path) -> RoundState:
    """The state in a JSON file."""
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    return parse_state(text, str(path))


def parse_state(text: str, source: str = "state") -> RoundState:
    """The state in a JSON text."""
    try:
        data = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: is not JSON: {reason(error)}") from None
    return read_state(data)


def read_state(data: object) -> RoundState:
    """The state in plain data, as `json.loads` gives it; every problem at once if there are any."""
    problems: list[str] = []
    optional = [*BACKHAUL_FIELDS, *OPTIONAL_FIELDS]
    table = keys_of(data, "state", problems, [*STATE_FIELDS, "edges"], optional)
    values = _read_fields(table, "state", STATE_FIELDS | OPTIONAL_FIELDS, problems)
    edges, devices, edge_of_device = _read_edges(table, problems)
    backhaul = _read_backhaul(table, values, problems)
    if problems:
        raise InputError(problems)
    allowance = devices.pop("energy_allowance_j")
    columns: dict[str, Any] = {n: np.array(c, dtype=np.float64) for n, c in devices.items()}
    snr_db = columns.pop("snr_db")
    seen = Observation(
        model_bits=values["model_bits"],
        local_steps=values.get("local_steps", 1),
        gossip_steps=values["gossip_steps"],
        edge_of_device=np.array(edge_of_device, dtype=np.int64),
        snr=linear_from_db(snr_db),
        edge_bandwidth_hz=np.array(edges["bandwidth_hz"]),
        backhaul=backhaul,
        gossip_codec="given" if "gossip_bits" in values else "none",
        gossip_bits=values.get("gossip_bits", 0.0),
        buffer_bits=values.get("buffer_bits", 0.0),
        menu=_menu(values),
        **columns,
    )
    limit = np.array([np.inf if value is None else value for value in allowance], dtype=np.float64)
    books = GivenAllowance(limit, np.array(edges["elapsed_s"]))
    return RoundState(
        seen,
        books,
        "local_steps" in values,
        "contraction_limit" in values,
        values.get("schema_version", 1),
    )


def _menu(values: Mapping[str, Any]) -> Menu | None:
    """The menu of codecs, if the state names any."""
    if "codecs" not in values:
        return None
    sizes = (values["model_bits"], values.get("buffer_bits", 0.0))
    return make_menu(values["codecs"], values.get("distortion_limit"), *sizes, "state")


def _read_fields(
    table: Mapping[str, Any], path: str, fields: Mapping[str, Rule], problems: list[str]
) -> dict[str, Any]:
    """The fields that are present, each checked by its rule."""
    return {
        name: rule.read(table[name], f"{path}.{name}", problems)
        for name, rule in fields.items()
        if name in table
    }


def _read_edges(
    table: Mapping[str, Any], problems: list[str]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]], list[int]]:
    """The columns over edge servers and devices, and the edge server of each device."""
    edges: dict[str, list[Any]] = {name: [] for name in EDGE_FIELDS}
    devices: dict[str, list[Any]] = {name: [] for name in DEVICE_FIELDS}
    edge_of_device: list[int] = []
    listed = table.get("edges", [])
    if "edges" in table and not (isinstance(listed, list) and listed):
        problems.append(problem("state.edges", listed, "a list of at least one edge"))
        listed = []
    for c, raw_edge in enumerate(listed):
        path = f"state.edges[{c}]"
        edge = keys_of(raw_edge, path, problems, [*EDGE_FIELDS, "devices"])
        for name, value in _read_fields(edge, path, EDGE_FIELDS, problems).items():
            edges[name].append(value)
        members = edge.get("devices", [])
        if not isinstance(members, list):
            problems.append(problem(f"{path}.devices", members, "a list of devices"))
            members = []
        for i, raw_device in enumerate(members):
            device_path = f"{path}.devices[{i}]"
            device = keys_of(raw_device, device_path, problems, DEVICE_FIELDS)
            values = _read_fields(device, device_path, DEVICE_FIELDS, problems)
            low, high = values.get("cpu_min_hz"), values.get("cpu_max_hz")
            if low is not None and high is not None and low > high:
                rule = f"<= cpu_max_hz = {high:g}"
                problems.append(problem(f"{device_path}.cpu_min_hz", low, rule))
            for name, value in values.items():
                devices[name].append(value)
            edge_of_device.append(c)
    return edges, devices, edge_of_device


def _read_backhaul(
    table: Mapping[str, Any], values: Mapping[str, Any], problems: list[str]
) -> Backhaul | None:
    """The backhaul, if its three fields are present."""
    given = [name for name in BACKHAUL_FIELDS if name in table]
    if not given:
        return None
    for name in BACKHAUL_FIELDS:
        if name not in table:
            problems.append(
                f"state.{name}: missing; {given[0]} is given, and all three go together"
            )
    edges = table.get("edges")
    size = len(edges) if isinstance(edges, list) and edges else None
    bps = _read_matrix(table, "backhaul_bps", q.LINK_BPS, size, problems)
    distance = _read_matrix(table, "consensus_distance", q.DISTANCE, size, problems)
    limit = _read_fields(table, "state", {"consensus_limit": q.DISTANCE}, problems)
    if bps is not None and bps.size and not is_connected(bps > 0):
        problems.append("state.backhaul_bps: its links must connect all edges")
    if bps is None or distance is None or limit.get("consensus_limit") is None:
        return None
    return Backhaul(bps, distance, limit["consensus_limit"], values.get("contraction_limit"))


def _read_matrix(
    table: Mapping[str, Any], name: str, rule: Rule, size: int | None, problems: list[str]
) -> FloatArray | None:
    """A symmetric matrix over the edge servers with a zero diagonal."""
    if name not in table:
        return None
    path, before = f"state.{name}", len(problems)
    rows = Listed(Listed(rule)).read(table[name], path, problems)
    if rows is None:
        return None
    shape = f"a square matrix, one row and one column per edge ({size})"
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            problems.append(f"{path}[{i}] has {len(row)} values: must be {shape}")
    if size is not None and len(rows) != size:
        problems.append(f"{path} has {len(rows)} rows: must be {shape}")
    if len(problems) > before:
        return None
    matrix = np.array(rows, dtype=np.float64)
    for i in np.flatnonzero(np.diag(matrix)).tolist():
        problems.append(problem(f"{path}[{i}][{i}]", matrix[i, i], "0, as for every edge itself"))
    for i, j in zip(*links_of(matrix != matrix.T), strict=True):
        rule_text = f"equal to {name}[{j}][{i}] = {matrix[j, i]:g}, as the matrix is symmetric"
        problems.append(problem(f"{path}[{i}][{j}]", float(matrix[i, j]), rule_text))
    return matrix if len(problems) == before else None


def plan_round(
    state: RoundState | Mapping[str, Any], policy: str | Policy = "fedrt", *, strict: bool = False
) -> dict[str, Any]:
    """The plan of a policy for one round, as JSON data (docs/plan.md).

    `strict` raises InfeasibleError where the plan would break a limit.
    """
    if not isinstance(state, RoundState):
        state = read_state(state)
    chosen = make_policy(policy) if isinstance(policy, str) else policy
    if chosen.name == "mll-sgd" and not state.local_steps_given:
        raise InputError("state.local_steps: missing; the policy mll-sgd needs it")
    plan = ask(chosen, state.seen, state.books)
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


def _gossip(gossip: Gossip | None) -> dict[str, Any] | None:
    """The gossip as JSON data, each link as a pair; None before the last edge round."""
    if gossip is None:
        return None
    return {
        "links": np.stack(links_of(gossip.links), axis=1).tolist(),
        "steps": int(gossip.steps),
        "weights": None if gossip.weights is None else gossip.weights.tolist(),
    } | ({} if gossip.codec is None else {"codec": gossip.codec})
