"""The problem of `control.allocation.priced` for one cluster, in CVXPY, solved by Clarabel."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from fedrt.world.observation import Observation


def least_worth_s(
    seen: Observation, price_s_per_j: np.ndarray, cap_j: np.ndarray, tau_s: float
) -> float:
    """The least sum of lambda_n e_n of a single cluster in the time tau, in seconds."""
    # Frequencies in units of f_max and bandwidths in units of the even share: all of order one.
    share_hz = seen.edge_bandwidth_hz[0] / seen.num_devices
    f, b = cp.Variable(seen.num_devices), cp.Variable(seen.num_devices)
    cn0_hz, more = seen.laws.cn0_hz, []
    if cn0_hz is None:
        k = seen.model_bits / np.log2(1 + seen.snr)
        upload_s = cp.multiply(k / share_hz, cp.inv_pos(b))
    else:
        upload_s = cp.Variable(seen.num_devices)
        rate = -cp.rel_entr(b, b + cn0_hz / share_hz) / np.log(2)
        more = [cp.multiply(seen.upload_bits / share_hz, cp.inv_pos(upload_s)) <= rate]
    compute_s = cp.multiply(seen.cycles / seen.cpu_max_hz, cp.inv_pos(f))
    full_j = seen.capacitance / 2 * seen.cycles * seen.cpu_max_hz**2
    energy_j = cp.multiply(seen.tx_power_w, upload_s) + cp.multiply(full_j, cp.square(f))
    rules = [
        upload_s + compute_s <= tau_s,
        cp.sum(b) <= seen.num_devices,
        f >= seen.cpu_min_hz / seen.cpu_max_hz,
        f <= 1,
        *more,
    ]
    limited = np.isfinite(cap_j)
    if limited.any():
        rules.append(energy_j[np.flatnonzero(limited)] <= cap_j[limited])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(price_s_per_j, energy_j))), rules)
    return float(problem.solve(solver=cp.CLARABEL))
