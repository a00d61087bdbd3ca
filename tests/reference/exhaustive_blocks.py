"""The least time of a cluster in whole resource blocks, by trying every division."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fedrt.world.observation import Observation


def divisions(blocks: int, devices: int) -> list[tuple[int, ...]]:
    """All ways to give away all blocks, at least one to each device."""
    found = []
    for cuts in combinations(range(1, blocks), devices - 1):
        ends = (0, *cuts, blocks)
        found.append(tuple(ends[i + 1] - ends[i] for i in range(devices)))
    return found


def device_time_s(seen: Observation, allowance_j: np.ndarray, n: int, hz: float) -> float:
    """The least time of one device with a bandwidth: the fastest computing that it can afford."""
    cn0_hz = seen.laws.cn0_hz
    snr = seen.snr[n] if cn0_hz is None else cn0_hz[n] / hz
    upload_s = seen.upload_bits[n] / (hz * np.log1p(snr) / np.log(2))
    slack_j = 1e-12 * abs(allowance_j[n])  # rounding
    left_j = allowance_j[n] - seen.tx_power_w[n] * upload_s
    w, cpu = seen.cycles[n], seen.laws.cpu
    if cpu is not None and cpu.of_device[n] >= 0:
        i = cpu.of_device[n]
        part = slice(cpu.first[i], cpu.first[i + 1])
        seconds, joules = w * cpu.s_per_cycle[part], w * cpu.j_per_cycle[part]
    else:
        f_min, f_max = seen.cpu_min_hz[n], seen.cpu_max_hz[n]
        a = seen.capacitance[n] / 2 * w
        f = min(f_max, np.sqrt(max(left_j, 0.0) / a))
        return upload_s + w / max(f, f_min) if a * f_min**2 <= left_j + slack_j else np.inf
    if left_j < joules[-1] - slack_j:
        return np.inf
    # Joules fall with seconds: looked up backwards.
    return upload_s + float(np.interp(left_j, joules[::-1], seconds[::-1]))


def least_time_s(seen: Observation, allowance_j: np.ndarray, block_hz: float, blocks: int) -> float:
    """The least time over all divisions of a single cluster's blocks; inf if none keeps limits."""
    size = seen.num_devices
    times = np.array(
        [
            [device_time_s(seen, allowance_j, n, m * block_hz) for m in range(1, blocks + 1)]
            for n in range(size)
        ]
    )
    best = np.inf
    for division in divisions(blocks, size):
        best = min(best, max(times[n, m - 1] for n, m in enumerate(division)))
    return float(best)
