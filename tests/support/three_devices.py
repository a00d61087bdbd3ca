"""A small edge round with round numbers, for tests of the cost model."""

from __future__ import annotations

import numpy as np

from fedrt.plan import Plan
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation


def three_devices(**laws) -> tuple[Plan, Observation]:
    """Two devices on edge 0, one on edge 2, none on edge 1; round numbers.

    compute 4, 2, 1 s at f = 1, 2, 4 Hz and 4 cycles; energies (1/2) 4 f^2 = 2, 8, 32 J.
    upload k / b with k = 8 bit at SNR 1: 8/4, 8/2, 8/8 = 2, 4, 1 s; at 1, 2, 3 W: 2, 8, 3 J.
    """
    seen = Observation(
        model_bits=8.0,
        local_steps=1,
        gossip_steps=1,
        edge_of_device=np.array([0, 0, 2]),
        cycles=np.full(3, 4.0),
        snr=np.ones(3),
        tx_power_w=np.array([1.0, 2.0, 3.0]),
        capacitance=np.ones(3),
        cpu_min_hz=np.full(3, 0.1),
        cpu_max_hz=np.full(3, 10.0),
        edge_bandwidth_hz=np.array([6.0, 1.0, 8.0]),
        laws=Laws(**laws),
    )
    plan = Plan(
        status="feasible",
        bandwidth_hz=np.array([4.0, 2.0, 8.0]),
        cpu_hz=np.array([1.0, 2.0, 4.0]),
        local_steps=np.ones(3, dtype=np.int64),
    )
    return plan, seen
