"""Seconds and joules of local training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def training_cycles(
    local_steps: FloatArray | float, batch_size: int, cycles_per_sample: FloatArray
) -> FloatArray:
    """CPU cycles of one edge round: W = S I mu."""
    return np.asarray(local_steps * batch_size * cycles_per_sample, dtype=np.float64)


def compute_time_s(cycles: FloatArray, cpu_hz: FloatArray) -> FloatArray:
    """Seconds to train: W / f."""
    return cycles / cpu_hz


def compute_energy_j(cycles: FloatArray, cpu_hz: FloatArray, capacitance: FloatArray) -> FloatArray:
    """Joules to train: (alpha / 2) W f^2."""
    return capacitance / 2 * cycles * cpu_hz**2
