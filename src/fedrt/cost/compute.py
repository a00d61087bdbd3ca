"""The time and energy of local training on a device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


def training_cycles(
    local_steps: FloatArray | float, batch_size: int, cycles_per_sample: FloatArray
) -> FloatArray:
    """The CPU cycles of one edge round on each device: W = S I mu."""
    return np.asarray(local_steps * batch_size * cycles_per_sample, dtype=np.float64)


def compute_time_s(cycles: FloatArray, cpu_hz: FloatArray) -> FloatArray:
    """The seconds of an edge round's training: W / f."""
    return cycles / cpu_hz


def compute_energy_j(cycles: FloatArray, cpu_hz: FloatArray, capacitance: FloatArray) -> FloatArray:
    """The joules of an edge round's training: (alpha / 2) W f^2."""
    return capacitance / 2 * cycles * cpu_hz**2


def training_energy_j(seen: Observation, cycles: FloatArray, cpu_hz: FloatArray) -> FloatArray:
    """The joules of an edge round's training by each device's own law: cubic, or measured."""
    energy_j = compute_energy_j(cycles, cpu_hz, seen.capacitance)
    tables = seen.laws.cpu
    return energy_j if tables is None else tables.energy_j(cycles, cpu_hz, energy_j)
