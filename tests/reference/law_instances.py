"""Random clusters under other laws than the paper's: spread noise, measured CPUs, idle power."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrt.cost.compute import training_energy_j
from fedrt.cost.uplink import seconds_to_send
from fedrt.world.cpu_tables import efficient_points
from fedrt.world.laws import CUBIC, CpuTables
from fedrt.world.observation import Observation
from reference.instances import Case, ordinary_case, wide_case

LAWS = ("noise", "tables", "idle", "noise and tables", "all")


def with_noise(rng: np.random.Generator, seen: Observation) -> Observation:
    """The cluster with noise spread over its bandwidth: the SNR is that over some part of it."""
    part_hz = seen.edge_bandwidth_hz[0] * 10 ** rng.uniform(-2, 0.5, seen.num_devices)
    return replace(seen, laws=replace(seen.laws, cn0_hz=seen.snr * part_hz))


def with_tables(rng: np.random.Generator, seen: Observation) -> Observation:
    """The cluster in which most devices have tables of up to six points, roughly cubic.

    Over no more than two decades of frequency: a plan tells a mean frequency as one float, whose
    last digit must not be worth more than 1e-9 of the energy of computing.
    """
    low_hz, high_hz = seen.cpu_min_hz.copy(), seen.cpu_max_hz.copy()
    of_device = np.full(seen.num_devices, CUBIC)
    first, seconds, joules = [0], [], []
    for n in range(seen.num_devices):
        if rng.uniform() < 0.2:
            continue
        count = int(rng.integers(1, 7)) if low_hz[n] < 0.999 * high_hz[n] else 1
        hz = np.geomspace(high_hz[n], max(low_hz[n], 0.01 * high_hz[n]), count)
        per_cycle_j = seen.capacitance[n] / 2 * hz**2 * 10 ** rng.uniform(-0.1, 0.1, count)
        best_hz, best_j = efficient_points(hz, per_cycle_j)
        of_device[n] = len(first) - 1
        low_hz[n], high_hz[n] = best_hz[-1], best_hz[0]
        first.append(first[-1] + len(best_hz))
        seconds.append(1.0 / best_hz)
        joules.append(best_j)
    if not seconds:
        return seen
    tables = CpuTables(of_device, np.array(first), np.concatenate(seconds), np.concatenate(joules))
    laws = replace(seen.laws, cpu=tables)
    return replace(seen, laws=laws, cpu_min_hz=low_hz, cpu_max_hz=high_hz)


def with_idling(rng: np.random.Generator, seen: Observation) -> Observation:
    """The cluster whose devices pay for waiting, mostly less than for sending."""
    part = 10 ** rng.uniform(-3, 0.1, seen.num_devices)
    return replace(seen, laws=replace(seen.laws, idle_power_w=part * seen.tx_power_w))


def under(rng: np.random.Generator, seen: Observation, law: str) -> Observation:
    """A cluster under one of `LAWS`."""
    if law in ("noise", "noise and tables", "all", "power"):
        seen = with_noise(rng, seen)
    if law == "power":
        return replace(seen, laws=replace(seen.laws, power_control=True))
    if law in ("tables", "noise and tables", "all"):
        seen = with_tables(rng, seen)
    return with_idling(rng, seen) if law in ("idle", "all") else seen


def law_budgets(
    rng: np.random.Generator, seen: Observation, kind: str, closest: float = 1e-4
) -> np.ndarray:
    """Allowances of a kind, as `instances.budgets` has them, with the energies of the laws."""
    size, b = seen.num_devices, seen.edge_bandwidth_hz[0]
    floor_j = training_energy_j(seen, seen.cycles, seen.cpu_min_hz)
    floor_j = floor_j * np.where(seen.tx_power_w > 0, 1.0, 1 + 1e-9)
    range_j = training_energy_j(seen, seen.cycles, seen.cpu_max_hz) - floor_j

    def sending_j(hz: np.ndarray) -> np.ndarray:
        return seen.tx_power_w * seconds_to_send(seen, seen.upload_bits, hz)

    if kind == "none":
        return np.full(size, np.inf)
    if kind == "slack":
        return 10 * (floor_j + range_j + sending_j(np.full(size, b / size))) * size
    if kind == "mixed":
        kinds = rng.choice(["none", "slack", "binding"], size)
        picked = {name: law_budgets(rng, seen, name) for name in ("none", "slack", "binding")}
        return np.array([picked[name][i] for i, name in enumerate(kinds)])
    share = rng.dirichlet(np.ones(size)) * 0.5 + 0.5 / size
    if kind == "binding":
        more = 1 + rng.exponential(1, size)
        return floor_j + sending_j(share * b) * more + range_j * rng.uniform(0, 1)
    gap = 10 ** rng.uniform(np.log10(closest), -0.5)
    if kind == "barely":
        return floor_j + sending_j(share * b * (1 - gap))
    assert kind == "too little"
    allowance_j = floor_j + sending_j(share * b * (1 + gap))
    if rng.uniform() < 0.3 or not seen.tx_power_w.all():
        one = rng.integers(size)
        allowance_j[one] = floor_j[one] * rng.uniform(-1, 1 - closest)
    return allowance_j


def law_case(
    rng: np.random.Generator, size: int, kind: str, law: str, *, wide: bool = False
) -> Case:
    """A cluster of `ordinary_case` or `wide_case` under another law."""
    base = wide_case(rng, size, kind) if wide else ordinary_case(rng, size, kind)
    seen = base.seen
    if law != "tables":
        seen = replace(seen, tx_power_w=np.maximum(seen.tx_power_w, 1e-12))
    seen = _well_posed(under(rng, seen, law), kind)
    return Case(seen, law_budgets(rng, seen, kind, 1e-6 if wide else 1e-4), f"{law}, {kind}")


def _well_posed(seen: Observation, kind: str) -> Observation:
    """The cluster with little enough energy of computing for its budgets to be written as floats.

    See `instances.well_posed`.
    """
    ratio = {"binding": 1e7, "mixed": 1e7, "barely": 1e3, "too little": 1e3}.get(kind)
    if ratio is None:
        return seen
    share_hz = np.full(seen.num_devices, seen.edge_bandwidth_hz[0] / seen.num_devices)
    upload_j = seen.tx_power_w * seconds_to_send(seen, seen.upload_bits, share_hz)
    floor_j = training_energy_j(seen, seen.cycles, seen.cpu_min_hz)
    less = np.where(upload_j > 0, np.minimum(ratio * upload_j / floor_j, 1.0), 1.0)
    cpu = seen.laws.cpu
    if cpu is None:
        return replace(seen, capacitance=seen.capacitance * less)
    joules = cpu.j_per_cycle.copy()
    for n in np.flatnonzero(cpu.of_device >= 0):
        i = cpu.of_device[n]
        joules[cpu.first[i] : cpu.first[i + 1]] *= less[n]
    laws = replace(seen.laws, cpu=replace(cpu, j_per_cycle=joules))
    return replace(seen, capacitance=seen.capacitance * less, laws=laws)
