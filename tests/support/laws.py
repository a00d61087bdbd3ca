"""Edge rounds under random physical layers, and what they cost, computed one device at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fedrt.ledger import Books
from fedrt.plan import Plan
from fedrt.policies import make_policy
from fedrt.world.fleet import FleetArrays
from fedrt.world.laws import CUBIC, CpuTables, Laws
from fedrt.world.observation import Observation

SETTINGS = {
    "noise": ("channel.law=noise-density", "channel.reference_hz=3e5"),
    "gains": (
        'channel={kind="uniform",low_db=-110,high_db=-90,law="noise-density",noise_figure_db=7}',
    ),
    "power": (
        "channel.law=noise-density",
        "channel.reference_hz=3e5",
        "channel.power_control=true",
    ),
    "blocks": ("bandwidth.block_hz=15000",),
    "downlink": ("downlink={tx_power_w=0.5}", "fleet.rx_power_w=0.3"),
    "overheads": ("overheads={header_factor=1.1,round_trip_s=0.05,aggregation_s=0.5}",),
    "table": ("fleet.cpu_table={hz=[2e9,2.5e9,2.8e9,3e9],power_w=[0.9,1.4,2.5,2.6]}",),
    "idle": ("fleet.idle_power_w=0.02",),
}
"""Settings for `tiny`, one law after the other."""
EVERY_LAW = (
    *SETTINGS["power"],
    *(
        text
        for name in ("blocks", "downlink", "overheads", "table", "idle")
        for text in SETTINGS[name]
    ),
)


class Quiet:
    """A policy that lowers the radios' power."""

    name, energy_horizon = "quiet", "exact"

    def plan(self, seen: Observation, books: Books) -> Plan:
        plan = make_policy("ce-fedavg").plan(seen, books)
        return replace(plan, tx_power_w=seen.tx_power_w / 2)


class Steady:
    """A channel of one's own with the same value for every device."""

    def __init__(self, fleet: FleetArrays, seed: int, level: float) -> None:
        self.level, self.count = level, fleet.num_devices

    def snr_db(self, t: int, r: int) -> np.ndarray:
        return np.full(self.count, self.level)


def random_round(seed: int, **given: bool) -> tuple[Plan, Observation]:
    """A plan and what was observed; each law is there with probability one half, or as given."""
    rng = np.random.default_rng(seed)

    def there(name: str) -> bool:
        drawn = bool(rng.random() < 0.5)
        return given.get(name, drawn)

    sizes = rng.integers(0, 4, size=3)
    count = int(sizes.sum())
    table = rng.integers(CUBIC, 2, count)
    noise, power = there("noise"), there("power")
    laws = Laws(
        cn0_hz=rng.uniform(1e4, 1e7, count) if noise else None,
        power_control=noise and power,
        listen_s=rng.uniform(0.1, 5, count) if there("downlink") else None,
        rx_power_w=rng.uniform(0, 0.5, count) if there("receive") else None,
        idle_power_w=rng.uniform(0, 0.2, count) if there("idle") else None,
        overhead_s=rng.uniform(0, 2) if there("overheads") else 0.0,
        cpu=CpuTables(
            table,
            np.array([0, 3, 5]),
            np.array([1 / 3e9, 1 / 2e9, 1 / 1e9, 1 / 3e9, 1 / 1.5e9]),
            np.array([2e-9, 1e-9, 0.5e-9, 3e-9, 1e-9]),
        )
        if there("table")
        else None,
    )
    seen = Observation(
        model_bits=8e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.repeat(np.arange(3), sizes),
        cycles=rng.uniform(1e9, 5e9, count),
        snr=rng.uniform(0.1, 30, count),
        tx_power_w=rng.uniform(0.01, 0.1, count),
        capacitance=rng.uniform(1e-29, 1e-28, count),
        cpu_min_hz=np.full(count, 1e9),
        cpu_max_hz=np.full(count, 3e9),
        edge_bandwidth_hz=np.full(3, 4e6),
        laws=laws,
    )
    plan = Plan(
        status="feasible",
        bandwidth_hz=rng.uniform(1e4, 1e6, count),
        cpu_hz=rng.uniform(1e9, 3e9, count),
        local_steps=rng.integers(1, 20, count),
        tx_power_w=seen.tx_power_w * rng.uniform(0.1, 1, count) if laws.power_control else None,
    )
    if there("left out"):
        plan = replace(plan, trains=rng.random(count) < 0.7)
    return plan, seen


def obvious_cost(plan: Plan, seen: Observation) -> dict[str, list[float]]:
    """Seconds and joules of every device and edge server, one after the other."""
    laws, count = seen.laws, seen.num_devices
    names = ("compute_s", "upload_s", "download_s", "compute_j", "upload_j", "download_j", "idle_j")
    found = {name: [0.0] * count for name in names}
    found["edge_time_s"] = []
    for c in range(seen.num_edges):
        members = [n for n in range(count) if seen.edge_of_device[n] == c and plan.trained[n]]
        for n in members:
            _one_device(plan, seen, n, members, found)
        ends = [
            sum(found[name][n] for name in ("download_s", "compute_s", "upload_s")) for n in members
        ]
        time_s = max(ends) + laws.overhead_s if members else 0.0
        found["edge_time_s"].append(time_s)
        for n, end in zip(members, ends, strict=True):
            if laws.idle_power_w is not None:
                found["idle_j"][n] = float(laws.idle_power_w[n]) * (time_s - end)
    return found


def _one_device(
    plan: Plan, seen: Observation, n: int, members: list[int], found: dict[str, list[float]]
) -> None:
    laws, hz = seen.laws, float(plan.bandwidth_hz[n])
    cycles = seen.cycles[n] * plan.local_steps[n] / seen.local_steps
    power_w = float((seen if plan.tx_power_w is None else plan).tx_power_w[n])
    if laws.cn0_hz is None:
        bps = hz * math.log2(1 + seen.snr[n])
    else:
        heard_hz = laws.cn0_hz[n] * power_w / seen.tx_power_w[n]
        bps = hz * math.log2(1 + heard_hz / hz)
    found["compute_s"][n] = cycles / plan.cpu_hz[n]
    bits = seen.upload_bits[n] if plan.codec is None else seen.menu.bits[plan.codec[n]]
    found["upload_s"][n] = bits / bps
    found["upload_j"][n] = power_w * found["upload_s"][n]
    found["compute_j"][n] = cycles * joules_per_cycle(seen, n, float(plan.cpu_hz[n]))
    if laws.listen_s is not None:
        found["download_s"][n] = max(laws.listen_s[m] for m in members)
        if laws.rx_power_w is not None:
            found["download_j"][n] = laws.rx_power_w[n] * found["download_s"][n]


def joules_per_cycle(seen: Observation, n: int, hz: float) -> float:
    """Of one device at a mean frequency: the cubic law, or its cycles divided among points."""
    cpu = seen.laws.cpu
    if cpu is None or cpu.of_device[n] == CUBIC:
        return float(seen.capacitance[n] / 2 * hz**2)
    first, end = cpu.first[cpu.of_device[n]], cpu.first[cpu.of_device[n] + 1]
    points = [(cpu.s_per_cycle[i], cpu.j_per_cycle[i]) for i in range(first, end)]
    if 1 / hz <= points[0][0] or 1 / hz >= points[-1][0]:
        return float(points[0][1] if 1 / hz <= points[0][0] else points[-1][1])
    for (fast_s, fast_j), (slow_s, slow_j) in pairwise(points):
        if fast_s <= 1 / hz <= slow_s:
            slow_part = (1 / hz - fast_s) / (slow_s - fast_s)
            return float(slow_part * slow_j + (1 - slow_part) * fast_j)
    raise AssertionError("points lie side by side")
