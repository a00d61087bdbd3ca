"""Random settings of the physical layer's laws, over wide ranges, for worlds of any kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from provenance import earlier

Table = dict[str, Any]
Generator = np.random.Generator


def log_uniform(draw: Generator, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def _middle(value: Any) -> float:
    return float(np.mean(value["uniform"])) if isinstance(value, dict) else float(value)


def _cycles(table: Table) -> float:
    cycles = table["rounds"]["local_steps"] * table["learning"]["batch_size"]
    return float(cycles * _middle(table["fleet"]["cycles_per_sample"]))


def _share_hz(table: Table) -> float:
    hz = table["bandwidth"].get("hz") or table["bandwidth"]["low_hz"]
    return float(hz * table["fleet"]["num_edges"] / table["fleet"]["num_devices"])


def spread_noise(draw: Generator, table: Table) -> None:
    """The channel's SNRs hold over from a hundredth to a hundred times an even share."""
    table["channel"] |= {
        "law": "noise-density",
        "reference_hz": _share_hz(table) * log_uniform(draw, 0.01, 100),
    }
    if _middle(table["fleet"]["tx_power_w"]) == 0:
        table["fleet"]["tx_power_w"] = 0.01


def power_control(draw: Generator, table: Table) -> None:
    spread_noise(draw, table)
    table["channel"]["power_control"] = True


def blocks(draw: Generator, table: Table) -> None:
    """From hardly more blocks than devices to hundreds for each."""
    fleet = table["fleet"]
    sizes = fleet.get("cluster_sizes")
    most = max(sizes) if isinstance(sizes, list) else fleet["num_devices"]
    hz = table["bandwidth"].get("hz") or table["bandwidth"]["low_hz"]
    table["bandwidth"]["block_hz"] = hz / most / log_uniform(draw, 1.01, 100)


def downlink(draw: Generator, table: Table) -> None:
    """A broadcast, its energy and overheads."""
    fleet = table["fleet"]
    if _middle(fleet["tx_power_w"]) == 0:
        fleet["tx_power_w"] = 0.01
    table["downlink"] = {"tx_power_w": _middle(fleet["tx_power_w"]) * log_uniform(draw, 0.3, 100)}
    fleet["rx_power_w"] = _middle(fleet["tx_power_w"]) * log_uniform(draw, 0.03, 1)
    compute_s = _cycles(table) / fleet["cpu_max_hz"]
    table["overheads"] = {
        "header_factor": float(draw.uniform(1, 1.3)),
        "round_trip_s": compute_s * log_uniform(draw, 1e-3, 1),
        "aggregation_s": compute_s * log_uniform(draw, 1e-3, 1),
    }


def cpu_table(draw: Generator, table: Table) -> None:
    """Measured power around a law between linear and cubic, on top of a constant."""
    fleet = table["fleet"]
    points = int(draw.integers(2, 12))
    hz = np.geomspace(fleet["cpu_min_hz"], fleet["cpu_max_hz"], points)
    scale = _middle(fleet["capacitance"]) / 2 * hz[-1] ** 3
    power_w = (hz / hz[-1]) ** draw.uniform(1.2, 3.2) + draw.uniform(0, 0.3)
    power_w *= scale * draw.uniform(0.9, 1.1, points)
    # The ends as they are read back from text.
    hz[0], hz[-1] = fleet["cpu_min_hz"], fleet["cpu_max_hz"]
    fleet["cpu_table"] = {"hz": hz.tolist(), "power_w": power_w.tolist()}


def idle_power(draw: Generator, table: Table) -> None:
    fleet = table["fleet"]
    watts = _middle(fleet["capacitance"]) / 2 * fleet["cpu_min_hz"] ** 3
    fleet["idle_power_w"] = watts * log_uniform(draw, 1e-3, 0.5)


def several(draw: Generator, table: Table) -> None:
    """Two or more of the others at once."""
    kinds = [spread_noise, blocks, downlink, cpu_table, idle_power]
    size = int(draw.integers(2, len(kinds) + 1))
    for place in sorted(draw.choice(len(kinds), size=size, replace=False).tolist()):
        kinds[place](draw, table)


LAWS: dict[str, Callable[[Generator, Table], None]] = {
    "noise-density": spread_noise,
    "power-control": power_control,
    "blocks": blocks,
    "downlink": downlink,
    "cpu-table": cpu_table,
    "idle-power": idle_power,
    "several": several,
}


def saved_worlds(file: Path | None) -> list[Table]:
    """The worlds that an earlier run has saved, none if there is no file."""
    before = earlier(file)
    return before["worlds"] if before else []


def in_batches(worlds: int, size: int = 20) -> list[range]:
    """The numbers of worlds in batches, so that what is saved early is about all laws."""
    return [range(low, min(low + size, worlds)) for low in range(0, worlds, size)]


def add_law(table: Table, law: str, seed: int, number: int) -> None:
    """Change the table of a random world, the same for all laws, to one under a law."""
    draw = np.random.default_rng([seed, number, 1 + list(LAWS).index(law)])
    LAWS[law](draw, table)
