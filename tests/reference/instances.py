"""Random clusters for the allocation tests: ordinary ones, hostile ones, and how to join them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedrt.world.observation import Observation

BUDGETS = ("none", "slack", "binding", "barely", "too little", "mixed")

DEVICE_COLUMNS = (
    "cycles",
    "snr",
    "tx_power_w",
    "capacitance",
    "cpu_min_hz",
    "cpu_max_hz",
)


@dataclass(frozen=True)
class Case:
    """One cluster and the energy its devices may spend."""

    seen: Observation
    allowance_j: np.ndarray
    label: str = ""


def one_cluster(model_bits: float, edge_bandwidth_hz: float, **columns: np.ndarray) -> Observation:
    """An observation of a single cluster."""
    size = len(columns["cycles"])
    return Observation(
        model_bits=model_bits,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.zeros(size, dtype=np.int64),
        edge_bandwidth_hz=np.array([edge_bandwidth_hz]),
        **{name: np.asarray(column, dtype=np.float64) for name, column in columns.items()},
    )


def join(cases: list[Case]) -> Case:
    """All clusters as one observation. They must share one model size."""
    (bits,) = {case.seen.model_bits for case in cases}
    edge = np.concatenate([np.full(c.seen.num_devices, i) for i, c in enumerate(cases)])
    columns = {
        name: np.concatenate([getattr(case.seen, name) for case in cases])
        for name in (*DEVICE_COLUMNS,)
    }
    seen = replace(
        cases[0].seen,
        edge_of_device=edge.astype(np.int64),
        edge_bandwidth_hz=np.concatenate([c.seen.edge_bandwidth_hz for c in cases]),
        model_bits=bits,
        **columns,
    )
    return Case(seen, np.concatenate([case.allowance_j for case in cases]))


def well_posed(seen: Observation, kind: str) -> Observation:
    """The cluster with capacitances low enough for its budgets to be written as floats.

    A budget is one number. If sending takes less than its last digit beside computing at f_min,
    or its last digits decide how near the edge it lies, no answer can be right.
    """
    ratio = {"binding": 1e7, "mixed": 1e7, "barely": 1e3, "too little": 1e3}.get(kind, 1e100)
    k = seen.model_bits * np.log(2) / np.log1p(seen.snr)
    upload_j = seen.tx_power_w * k * seen.num_devices / seen.edge_bandwidth_hz[0]
    per_capacitance = seen.cycles / 2 * seen.cpu_min_hz**2
    most = np.where(seen.tx_power_w > 0, ratio * upload_j / per_capacitance, np.inf)
    return replace(seen, capacitance=np.minimum(seen.capacitance, most))


def budgets(
    rng: np.random.Generator, seen: Observation, kind: str, closest: float = 1e-4
) -> np.ndarray:
    """Allowances of a kind. `closest` is how near `barely` and `too little` come to the edge.

    The edge of what fits is where the sum of p k / spare equals the bandwidth, so spares that
    are shares of it, scaled by 1 -+ closest, lie just inside or outside.
    """
    size, b = seen.num_devices, seen.edge_bandwidth_hz[0]
    k = seen.model_bits * np.log(2) / np.log1p(seen.snr)
    a = seen.capacitance * seen.cycles / 2
    # Where sending is free nothing else is left to lie between the budget and its rounding.
    floor_j = a * seen.cpu_min_hz**2 * np.where(seen.tx_power_w > 0, 1.0, 1 + 1e-9)
    upload_j = seen.tx_power_w * k * size / b
    range_j = a * seen.cpu_max_hz**2 - floor_j
    if kind == "none":
        return np.full(size, np.inf)
    if kind == "slack":
        return 10 * (floor_j + range_j + upload_j) * size
    if kind == "mixed":
        kinds = rng.choice(["none", "slack", "binding"], size)
        picked = {name: budgets(rng, seen, name) for name in ("none", "slack", "binding")}
        return np.array([picked[name][i] for i, name in enumerate(kinds)])
    share = rng.dirichlet(np.ones(size)) * 0.5 + 0.5 / size
    least_j = seen.tx_power_w * k / (share * b)
    if kind == "binding":
        return floor_j + least_j * (1 + rng.exponential(1, size)) + range_j * rng.uniform(0, 1)
    gap = 10 ** rng.uniform(np.log10(closest), -0.5)
    if kind == "barely":
        return floor_j + least_j / (1 - gap)
    if kind == "too little":
        allowance = floor_j + least_j / (1 + gap)
        if rng.uniform() < 0.3 or not least_j.all():
            one = rng.integers(size)
            allowance[one] = floor_j[one] * rng.uniform(-1, 1 - closest)
        return allowance
    raise ValueError(kind)


def ordinary_case(rng: np.random.Generator, size: int, kind: str) -> Case:
    """A cluster like the paper's, each quantity spread over up to three orders of magnitude."""

    def spread(centre: float) -> np.ndarray:
        decades = rng.choice([0.0, 1.0, 2.0, 3.0])
        return centre * 10 ** (decades * rng.uniform(-0.5, 0.5, size))

    cpu_max = 3e9 * 10 ** rng.uniform(-0.5, 0.5, size)
    cpu_min = cpu_max * rng.choice([1.0, 2 / 3, 0.1, 0.01], size)
    if rng.uniform() < 0.2:
        cpu_min = cpu_max.copy()
    power = spread(0.01)
    if rng.uniform() < 0.25:
        power[rng.uniform(size=size) < 0.4] = 0.0
    seen = one_cluster(
        model_bits=8.6e6,
        edge_bandwidth_hz=1e6 * max(1.0, size / 9) * 10 ** rng.uniform(-1.5, 1.5),
        cycles=spread(1e10),
        snr=10 ** rng.uniform(0, 1.5, size) if rng.uniform() < 0.5 else spread(5.0),
        tx_power_w=power,
        capacitance=spread(1e-29),
        cpu_min_hz=cpu_min,
        cpu_max_hz=cpu_max,
    )
    return Case(seen, budgets(rng, seen, kind), kind)


def wide_case(rng: np.random.Generator, size: int, kind: str, closest: float = 1e-6) -> Case:
    """A cluster whose numbers lie many orders of magnitude apart."""

    def between(low: float, high: float) -> np.ndarray:
        return 10 ** rng.uniform(np.log10(low), np.log10(high), size)

    cpu_max = between(1e6, 1e11)
    cpu_min = cpu_max / np.where(rng.uniform(size=size) < 0.2, 1.0, between(1.0, 1e4))
    power = between(1e-12, 1e3)
    if rng.uniform() < 0.2:
        power[rng.uniform(size=size) < 0.3] = 0.0
    seen = one_cluster(
        model_bits=8.6e6,
        edge_bandwidth_hz=float(10 ** rng.uniform(2, 10)),
        cycles=between(1e3, 1e15),
        snr=10 ** rng.uniform(-1, 4, size),
        tx_power_w=power,
        capacitance=between(1e-33, 1e-22),
        cpu_min_hz=cpu_min,
        cpu_max_hz=cpu_max,
    )
    seen = well_posed(seen, kind)
    return Case(seen, budgets(rng, seen, kind, closest), kind)
