"""The state of one round, read from JSON data and checked (docs/plan.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.control.coding.menu import make_menu
from fedrt.decision.laws import (
    DEVICE_LAW_FIELDS,
    LAW_FIELDS,
    block_problems,
    law_problems,
    read_laws,
)
from fedrt.errors import InputError, reason
from fedrt.graph import is_connected, links_of
from fedrt.ledger import GivenAllowance
from fedrt.messages import SELECTABLE
from fedrt.scenario.tables.fields import word_or
from fedrt.system.inputs import parse_json, read_text
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
    "global_round": Whole(0, 10**9),
    "contraction_limit": Real(above=0, most=1),
    "gossip_bits": q.MODEL_BITS,
    "buffer_bits": q.MORE_BITS,
    "codecs": Listed(OneOf(SELECTABLE), 1, 16),
    "distortion_limit": word_or(SELECTABLE, Real(least=0, most=1)),
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
    notes: tuple[str, ...] = ()
    """What a user may want to know of the state."""


def load_state(path: str | Path) -> RoundState:
    """The state in a JSON file."""
    return read_state(load_data(path))


def load_data(path: str | Path) -> object:
    """What is in a JSON file, unchecked."""
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    return _parsed(text, str(path))


def parse_state(text: str, source: str = "state") -> RoundState:
    """The state in a JSON text."""
    return read_state(_parsed(text, source))


def _parsed(text: str, source: str) -> object:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: is not JSON: {reason(error)}") from None


def read_state(data: object) -> RoundState:
    """The state in plain data, as `json.loads` gives it; every problem at once if there are any."""
    problems: list[str] = []
    optional = [*BACKHAUL_FIELDS, *OPTIONAL_FIELDS, *LAW_FIELDS]
    table = keys_of(data, "state", problems, [*STATE_FIELDS, "edges"], optional)
    values = _read_fields(table, "state", STATE_FIELDS | OPTIONAL_FIELDS | LAW_FIELDS, problems)
    edges, devices, edge_of_device = _read_edges(table, problems)
    backhaul = _read_backhaul(table, values, problems)
    if problems := problems or law_problems(values, devices):
        raise InputError(problems)
    allowance = devices.pop("energy_allowance_j")
    edge, hz = np.array(edge_of_device, dtype=np.int64), np.array(edges["bandwidth_hz"])
    if problems := block_problems(values.get("block_hz"), edge, hz):
        raise InputError(problems)
    laws, channel, cpu_hz, notes = read_laws(values, devices, edge, hz)
    names = ("cycles", "tx_power_w", "capacitance")
    columns: dict[str, Any] = {n: np.array(devices[n], dtype=np.float64) for n in names}
    factor = laws.header_factor
    seen = Observation(
        model_bits=values["model_bits"],
        local_steps=values.get("local_steps", 1),
        gossip_steps=values["gossip_steps"],
        edge_of_device=edge,
        snr=channel,
        cpu_min_hz=cpu_hz[0],
        cpu_max_hz=cpu_hz[1],
        edge_bandwidth_hz=hz,
        backhaul=backhaul,
        gossip_codec="given" if "gossip_bits" in values else "none",
        gossip_bits=values.get("gossip_bits", values["model_bits"]) * factor,
        upload_bits=np.full(len(edge), values["model_bits"] * factor),
        buffer_bits=values.get("buffer_bits", 0.0),
        menu=_menu(values),
        laws=laws,
        t=values.get("global_round", 0),
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
        tuple(notes),
    )


def _menu(values: Mapping[str, Any]) -> Menu | None:
    """The menu of codecs, if the state names any."""
    if "codecs" not in values:
        return None
    sizes = (values["model_bits"], values.get("buffer_bits", 0.0))
    factor = values.get("header_factor", 1.0)
    return make_menu(values["codecs"], values.get("distortion_limit"), *sizes, "state", factor)


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
    rules = DEVICE_FIELDS | DEVICE_LAW_FIELDS
    devices: dict[str, list[Any]] = {name: [] for name in rules}
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
            given = raw_device if isinstance(raw_device, Mapping) else {}
            needed = [n for n in DEVICE_FIELDS if n != "snr_db" or "cn0_hz" not in given]
            optional = [*DEVICE_LAW_FIELDS, "snr_db"]
            device = keys_of(raw_device, device_path, problems, needed, optional)
            values = _read_fields(device, device_path, rules, problems)
            low, high = values.get("cpu_min_hz"), values.get("cpu_max_hz")
            if low is not None and high is not None and low > high:
                rule = f"<= cpu_max_hz = {high:g}"
                problems.append(problem(f"{device_path}.cpu_min_hz", low, rule))
            for name, column in devices.items():
                column.append(values.get(name))
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
    return Backhaul(
        bps,
        distance,
        limit["consensus_limit"],
        values.get("contraction_limit"),
        latency_s=values.get("round_trip_s") or 0.0,
    )


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
