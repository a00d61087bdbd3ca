"""The physical layer of a state beyond the paper's: noise density, blocks, downloads and the like.

docs/cost-model.md has the equations, docs/plan.md the fields. They need schema version 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.plan import ROUNDING
from fedrt.scenario.physical import CpuTable, Overheads, cpu_table_problems
from fedrt.scenario.tables.fields import read_table
from fedrt.units import linear_from_db
from fedrt.validation import Flag, Real, Rule, Text, problem, shown
from fedrt.world.cpu_tables import measured_cpus, unused_points
from fedrt.world.laws import CUBIC, CpuTables, Laws

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Columns = Mapping[str, list[Any]]

MOST_TABLES = 1_000


class NamedTables:
    """The rule for tables of measured computing energies by name."""

    def read(self, value: object, path: str, problems: list[str]) -> dict[str, CpuTable] | None:
        if not isinstance(value, Mapping) or len(value) > MOST_TABLES:
            problems.append(problem(path, value, f"at most {MOST_TABLES} tables by their names"))
            return None
        found: dict[str, CpuTable] = {}
        for name, given in value.items():
            own, lines = f"{path}.{shown(name)[1:-1]}", list[str]()
            table = read_table(CpuTable, given, own, lines)
            if table is not None and table.file is not None:
                lines.append(f"{own}.file: must be given as hz, and power_w or joules_per_cycle")
            problems += lines or cpu_table_problems(own, table)
            if table is not None:
                found[name] = table
        return found


LAW_FIELDS: dict[str, Rule] = {
    "block_hz": q.BANDWIDTH_HZ,
    "power_control": Flag(),
    "header_factor": Real(least=1, most=100),
    "round_trip_s": q.SECONDS,
    "aggregation_s": q.SECONDS,
    "download_bits": q.MODEL_BITS,
    "cpu_tables": NamedTables(),
}
DEVICE_LAW_FIELDS: dict[str, Rule] = {
    "cn0_hz": q.CN0_HZ,
    "downlink_bps": q.BACKHAUL_BPS,
    "rx_power_w": q.TX_POWER_W,
    "idle_power_w": q.TX_POWER_W,
    "cpu_table": Text(200),
}


def law_problems(values: Mapping[str, Any], devices: Columns) -> list[str]:
    """One line for each rule between the fields of the physical layer that is broken."""
    given = {name for name in LAW_FIELDS if name in values}
    given |= {name for name in DEVICE_LAW_FIELDS if _some(devices[name])}
    lines = []
    if given and values.get("schema_version", 1) == 1:
        first = next(name for name in (*LAW_FIELDS, *DEVICE_LAW_FIELDS) if name in given)
        lines.append(f'state: {first} needs "schema_version": 2 in the state')
    for one, other in (("cn0_hz", "snr_db"), ("downlink_bps", None)):
        if _some(devices[one]) and None in devices[one]:
            lines.append(f"state: {one} is given for some devices: must be for all or for none")
        elif other is not None and _some(devices[one]) and _some(devices[other]):
            lines.append(f"state: {one} and {other} are given: must be one of them")
    if values.get("power_control") and not _some(devices["cn0_hz"]):
        lines.append("state.power_control: only goes with cn0_hz of every device")
    if "download_bits" in values and not _some(devices["downlink_bps"]):
        lines.append("state.download_bits: only goes with downlink_bps of every device")
    if _some(devices["cn0_hz"]) and 0 in devices["tx_power_w"]:
        lines.append("state: tx_power_w = 0: must be > 0 where cn0_hz is given")
    known = values.get("cpu_tables") or {}
    unknown = sorted({name for name in devices["cpu_table"] if name is not None} - {*known})
    return lines + [f"state.cpu_tables: has no table {shown(name)} of a device" for name in unknown]


def block_problems(block_hz: float | None, edge: IntArray, bandwidth_hz: FloatArray) -> list[str]:
    """One line for each edge server with fewer whole blocks than devices."""
    if block_hz is None:
        return []
    blocks = np.floor(bandwidth_hz / block_hz * (1 + ROUNDING))
    size = np.bincount(edge, minlength=len(bandwidth_hz))
    return [
        f"state.edges[{c}].bandwidth_hz = {bandwidth_hz[c]:g}: has {blocks[c]:.0f} whole blocks of"
        f" block_hz = {block_hz:g} for {size[c]} devices: must be one for each"
        for c in np.flatnonzero(blocks < size).tolist()
    ]


def _some(column: list[Any]) -> bool:
    return any(value is not None for value in column)


def read_laws(
    values: Mapping[str, Any], devices: Columns, edge: IntArray, bandwidth_hz: FloatArray
) -> tuple[Laws, FloatArray, tuple[FloatArray, FloatArray], list[str]]:
    """The laws of a checked state, each device's SNR, the ends of its CPU frequencies, and notes.

    Where noise is spread over the bandwidth, the SNR is that over an even share of it.
    """
    cpu, cpu_hz, notes = _read_cpus(values, devices)
    cn0_hz = listen_s = None
    if _some(devices["cn0_hz"]):
        cn0_hz = np.array(devices["cn0_hz"], dtype=np.float64)
        size = np.bincount(edge, minlength=len(bandwidth_hz))
        snr = cn0_hz / (bandwidth_hz / np.maximum(size, 1))[edge]
    else:
        snr = linear_from_db(np.array(devices["snr_db"], dtype=np.float64))
    factor = values.get("header_factor", 1.0)
    if _some(devices["downlink_bps"]):
        bits = values.get("download_bits", values["model_bits"]) * factor
        listen_s = bits / np.array(devices["downlink_bps"], dtype=np.float64)
    overheads = Overheads(factor, values.get("round_trip_s", 0.0), values.get("aggregation_s", 0.0))
    laws = Laws(
        cn0_hz=cn0_hz,
        power_control=bool(values.get("power_control")),
        block_hz=values.get("block_hz"),
        listen_s=listen_s,
        rx_power_w=_or_zero(devices["rx_power_w"]),
        idle_power_w=_or_zero(devices["idle_power_w"]),
        overhead_s=overheads.of_an_edge_round_s(downlink=listen_s is not None),
        header_factor=factor,
        cpu=cpu,
    )
    return laws, snr, cpu_hz, notes


def _or_zero(column: list[Any]) -> FloatArray | None:
    """The column with 0 where it is not given; None if it is given nowhere."""
    return np.array([value or 0.0 for value in column]) if _some(column) else None


def _read_cpus(
    values: Mapping[str, Any], devices: Columns
) -> tuple[CpuTables | None, tuple[FloatArray, FloatArray], list[str]]:
    ends = (np.array(devices[name], dtype=np.float64) for name in ("cpu_min_hz", "cpu_max_hz"))
    cpu_hz = (next(ends), next(ends))
    if not _some(devices["cpu_table"]):
        return None, cpu_hz, []
    names = {name: i for i, name in enumerate(values["cpu_tables"])}
    table_of_device = np.array([names.get(name, CUBIC) for name in devices["cpu_table"]])
    tables = {i: values["cpu_tables"][name] for name, i in names.items()}
    paths = {i: f"state.cpu_tables.{name}" for name, i in names.items()}
    cpu, cpu_hz = measured_cpus(tables, table_of_device, cpu_hz, paths)
    return cpu, cpu_hz, unused_points(tables, table_of_device, cpu, paths)
