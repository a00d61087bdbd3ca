"""What an allocation takes and needs, for tests."""

from __future__ import annotations

import numpy as np

from fedrt.control.allocation.shares import slowest_compute_energy_j
from fedrt.plan import Plan


def times_s(seen, allocation):
    """Per device, compute and upload seconds."""
    k = seen.model_bits / np.log2(1 + seen.snr)
    return seen.cycles / allocation.cpu_hz, k / allocation.bandwidth_hz


def least_times_s(seen, allocation):
    """Per cluster, its slowest device."""
    return seen.max_by_edge(sum(times_s(seen, allocation)))


def spare_j(seen, allowance_j):
    """What computing at f_min leaves of each allowance."""
    return allowance_j - slowest_compute_energy_j(seen)


def as_plan(seen, allocation):
    """The plan with an allocation, for `price`."""
    steps = np.full(seen.num_devices, seen.local_steps)
    return Plan(
        "feasible",
        allocation.bandwidth_hz,
        allocation.cpu_hz,
        steps,
        tx_power_w=allocation.tx_power_w,
    )
