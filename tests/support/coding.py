"""Choices of codecs small enough to search through, and when a choice ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from fedrt.control.allocation.allocate import allocate
from fedrt.control.allocation.priced import cost_of
from fedrt.control.allocation.shares import least_energy_j
from fedrt.control.coding.choice import Coding
from fedrt.control.coding.menu import make_menu
from fedrt.cost.round import fixed_time_s
from fedrt.messages import distortion
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation

CODECS = ("int3", "int4", "int6", "int8")
LIMIT = 0.5 * distortion("int4")
"""All send int6, and about half of them may send int4 in its place."""


def random_choice(
    seed: int, sizes: tuple[int, ...], laws: Laws | None = None, slack: tuple[float, float] = (1, 2)
) -> tuple[Coding, np.ndarray]:
    """Devices whose allowances all bind, and what clusters have behind them.

    `slack`: a device may spend between these multiples of what the uniform codec takes at least.
    """
    rng = np.random.default_rng(seed)
    count = sum(sizes)
    seen = Observation(
        model_bits=8.7e6,
        local_steps=10,
        gossip_steps=10,
        edge_of_device=np.repeat(np.arange(len(sizes)), sizes),
        cycles=np.full(count, 3e9) * rng.uniform(0.5, 2, count),
        snr=10 ** rng.uniform(0, 1.5, count),
        tx_power_w=rng.choice([0.1, 0.5], count),
        capacitance=2e-28 * rng.uniform(0.1, 1, count),
        cpu_min_hz=np.full(count, 0.5e9),
        cpu_max_hz=np.full(count, 3e9),
        edge_bandwidth_hz=rng.uniform(0.5e6, 1e6, len(sizes)),
        menu=make_menu(CODECS, LIMIT, 8.7e6, 0.0, "state"),
        laws=Laws() if laws is None else laws,
    )
    uniform = replace(seen, upload_bits=np.full(count, seen.menu.bits[seen.menu.uniform]))
    cap_j = least_energy_j(uniform) * rng.uniform(1 + 0.05 * slack[0], slack[1], count)
    return Coding(seen, cap_j), rng.uniform(0, 3, len(sizes))


def cluster_times_s(coding: Coding, codec: np.ndarray) -> np.ndarray:
    """Each cluster's least seconds with these codecs; inf where a device cannot keep its cap."""
    seen = coding.coded(codec)
    allocation = allocate(seen, coding.cap_j)
    if allocation.relaxed.any():
        return np.full(seen.num_edges, np.inf)
    cost = cost_of(seen, allocation)
    return seen.max_by_edge(cost.compute_s + cost.upload_s) + fixed_time_s(seen)


def end_s(coding: Coding, codec: np.ndarray, offset_s: np.ndarray) -> float:
    """When the last cluster ends with these codecs; inf where a device cannot keep its cap."""
    return float(np.max(offset_s + cluster_times_s(coding, codec)))


def allowed_codecs(coding: Coding, free: np.ndarray) -> list[np.ndarray]:
    """All codecs of the devices that may choose, within the limit; the others' are uniform."""
    menu, allowed = coding.menu, []
    for choice in product(range(len(menu.bits)), repeat=int(free.sum())):
        codec = coding.uniform.copy()
        codec[free] = choice
        if menu.distortion[codec[free]].mean() <= menu.limit * (1 + 1e-12):
            allowed.append(codec)
    return allowed


def earliest_of_all(coding: Coding, offset_s: np.ndarray, free: np.ndarray) -> float:
    """The earliest end over all codecs of the devices that may choose, within the limit."""
    return min(end_s(coding, codec, offset_s) for codec in allowed_codecs(coding, free))
