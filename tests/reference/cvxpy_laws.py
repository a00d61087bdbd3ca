"""The allocation under other laws as convex programs for CVXPY and Clarabel.

In computing times c, upload times t and bandwidths b, all constraints are convex as they stand:

    minimise    tau
    subject to  c + t <= tau,  e(c) + p t + i (tau - c - t) <= E,
                bits / t <= b log2(1 + cn0 / b),  sum of b <= b_c,

with e(c) = a W^2 / c^2 or the greatest of a table's lines. With power control it is a geometric
program, solved in logarithms, with 2^(bits / (b t)) - 1 as the first terms of its power series.
Variables are scaled by a first answer, and two passes have to agree: see `cvxpy_allocation`.
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

from fedrt.cost.compute import training_energy_j
from fedrt.cost.uplink import seconds_to_send
from fedrt.world.observation import Observation
from reference.cvxpy_allocation import AGREEMENT, RESIDUAL, TOLERANCES, Verdict

TERMS = 40
# Up to this log(1 + SNR) of an upload the terms beyond are below 1e-12 of the sum.
MOST_LOG_SNR = 8.0


def solve_law(seen: Observation, allowance_j: np.ndarray) -> tuple[Verdict, float]:
    """The solver's verdict on an observation of a single cluster, and the least time it finds."""
    size = seen.num_devices
    hz = np.full(size, seen.edge_bandwidth_hz[0] / size)
    scale = {
        "c": seen.cycles / seen.cpu_max_hz,
        "t": seconds_to_send(seen, seen.upload_bits, hz),
        "b": hz,
    }
    time_s, before = float((scale["c"] + scale["t"]).max()), np.inf
    for tolerance in TOLERANCES:
        verdict, found = _one_pass(seen, allowance_j, scale, time_s, tolerance)
        if verdict == "infeasible":
            return verdict, np.inf
        if found is not None:
            scale = {name: np.maximum(found[name], 1e-300) for name in scale}
            time_s = found["tau"]
        if verdict == "solved":
            if abs(time_s / before - 1) <= AGREEMENT:
                return verdict, time_s
            before = time_s
    return "undecided", np.inf


def _computing_rows(seen: Observation, c: Any, scale_s: np.ndarray, e: Any, e_j: Any) -> list[Any]:
    """The constraints that say that computing takes no less than e joules over their scale."""
    cpu, w = seen.laws.cpu, seen.cycles
    of_device = np.full(len(w), -1) if cpu is None else cpu.of_device
    cubic = np.flatnonzero(of_device < 0)
    rows = []
    if len(cubic):
        top_j = (seen.capacitance / 2 * w * (w / scale_s) ** 2 / e_j)[cubic]
        rows.append(cp.multiply(top_j, cp.power(c[cubic], -2)) <= e[cubic])
    device, slopes, starts = [], [], []
    for n in np.flatnonzero(of_device >= 0):
        part = slice(cpu.first[of_device[n]], cpu.first[of_device[n] + 1])
        seconds = w[n] * cpu.s_per_cycle[part] / scale_s[n]
        joules = w[n] * cpu.j_per_cycle[part] / e_j[n]
        slope = np.append(np.diff(joules) / np.diff(seconds), 0.0)
        device += [n] * len(slope)
        slopes += slope.tolist()
        starts += (joules - slope * seconds).tolist()
    if device:
        rows.append(cp.multiply(np.array(slopes), c[device]) + np.array(starts) <= e[device])
    return rows


def _one_pass(
    seen: Observation,
    allowance_j: np.ndarray,
    scale: dict[str, np.ndarray],
    time_s: float,
    tolerance: float,
) -> tuple[Verdict, dict[str, Any] | None]:
    size, laws, mul = seen.num_devices, seen.laws, cp.multiply
    c, t, b, e, tau = (cp.Variable(m) for m in (size, size, size, size, 1))
    c_s, t_s, b_hz = scale["c"], scale["t"], scale["b"]
    idle_w = np.zeros(size) if laws.idle_power_w is None else laws.idle_power_w
    low, high = (seen.cycles / f / c_s for f in (seen.cpu_max_hz, seen.cpu_min_hz))
    limited = np.flatnonzero(np.isfinite(allowance_j))
    e_j = np.where(np.isfinite(allowance_j), np.maximum(np.abs(allowance_j), 1e-300), 1.0)
    e_j = np.maximum(e_j, np.where(np.isfinite(allowance_j), seen.tx_power_w * t_s, 0.0))
    busy = mul(c_s / time_s, c) + mul(t_s / time_s, t)
    free = np.flatnonzero(high > low * (1 + 1e-9))
    fixed = np.flatnonzero(high <= low * (1 + 1e-9))
    rows = [cp.sum(mul(b_hz / seen.edge_bandwidth_hz[0], b)) <= 1, busy <= tau]
    if len(free):
        rows += [c[free] >= low[free], c[free] <= high[free]]
    if len(fixed):
        rows += [c[fixed] == low[fixed]]
    bits = seen.upload_bits * np.log(2) / (t_s * b_hz)
    if laws.cn0_hz is None:
        rows.append(mul(bits / np.log1p(seen.snr), cp.inv_pos(t)) <= b)
    else:
        rows.append(mul(bits, cp.inv_pos(t)) <= -cp.rel_entr(b, b + laws.cn0_hz / b_hz))
    if len(limited):
        wait = mul(idle_w * time_s / e_j, tau - busy)
        energy = e + mul(seen.tx_power_w * t_s / e_j, t) + wait
        rows.append(energy[limited] <= (allowance_j / e_j)[limited])
        rows += _computing_rows(seen, c, c_s, e, e_j)
    problem = cp.Problem(cp.Minimize(cp.sum(tau)), rows)
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.solve(solver=cp.CLARABEL, **dict.fromkeys(names, tolerance))
    except cp.SolverError:
        return "undecided", None
    if problem.status == cp.INFEASIBLE:
        return "infeasible", None
    if c.value is None or min(c.value.min(), t.value.min(), b.value.min()) <= 0:
        return "undecided", None
    found = {
        "c": c.value * scale["c"],
        "t": t.value * scale["t"],
        "b": b.value * scale["b"],
        "tau": float(tau.value[0] * time_s),
    }
    kept = problem.status == cp.OPTIMAL and _residual(seen, allowance_j, found) <= RESIDUAL
    return ("solved" if kept else "undecided"), found


def _residual(seen: Observation, allowance_j: np.ndarray, found: dict[str, Any]) -> float:
    """By how much of its own size the most broken constraint is broken."""
    c, t, b, tau = (found[name] for name in ("c", "t", "b", "tau"))
    # Times beyond a device's range only cost time.
    f = np.clip(seen.cycles / c, seen.cpu_min_hz, seen.cpu_max_hz)
    idle_w = np.zeros(len(c)) if seen.laws.idle_power_w is None else seen.laws.idle_power_w
    energy_j = training_energy_j(seen, seen.cycles, f) + seen.tx_power_w * t
    energy_j = energy_j + idle_w * np.maximum(tau - c - t, 0.0)
    limited = np.isfinite(allowance_j)
    over = (energy_j[limited] - allowance_j[limited]) / np.abs(allowance_j[limited])
    late = (c + t) / tau - 1
    short = seconds_to_send(seen, seen.upload_bits, b) / t - 1
    fast = seen.cycles / seen.cpu_max_hz / c - 1
    used = b.sum() / seen.edge_bandwidth_hz[0] - 1
    worst = [late.max(), short.max(), fast.max(), used, over.max(initial=0.0)]
    return float(max(worst))


def solve_power(seen: Observation, allowance_j: np.ndarray, near_s: float) -> tuple[Verdict, float]:
    """The same with power control, by the cubic law; `near_s` only scales the variables.

    All variables are logarithms: of c, t, b, the power over its greatest, and tau.
    """
    laws, size, b_hz = seen.laws, seen.num_devices, seen.edge_bandwidth_hz[0]
    assert laws.cn0_hz is not None
    if (allowance_j <= 0).any():
        return "infeasible", np.inf
    c, t, b, q = (cp.Variable((1, size)) for _ in range(4))
    tau = cp.Variable()
    k = np.arange(1, TERMS + 1)[:, None]
    log_factorial = np.cumsum(np.log(k), axis=0)
    low, high = (np.log(seen.cycles / f / near_s) for f in (seen.cpu_max_hz, seen.cpu_min_hz))
    rows = [cp.log_sum_exp(b) <= 0, q <= 0, c >= low[None], c <= high[None]]
    rows.append(cp.log_sum_exp(cp.vstack([c, t]), axis=0) <= tau)
    # With v = bits ln 2 / (b t): b (v + v^2 / 2 + v^3 / 6 + ...) <= cn0 q.
    v = np.log(seen.upload_bits * np.log(2) / (b_hz * near_s))
    series = k * v - log_factorial + (1 - k) @ b - k @ t
    rows.append(cp.log_sum_exp(series, axis=0) <= np.log(laws.cn0_hz / b_hz) + q[0])
    limited = np.flatnonzero(np.isfinite(allowance_j))
    if len(limited):
        top_j = seen.capacitance / 2 * seen.cycles * (seen.cycles / near_s) ** 2
        computing = np.log((top_j / allowance_j)[limited])[None] - 2 * c[:, limited]
        sending = np.log((seen.tx_power_w * near_s / allowance_j)[limited])[None]
        sending = sending + q[:, limited] + t[:, limited]
        rows.append(cp.log_sum_exp(cp.vstack([computing, sending]), axis=0) <= 0)
    problem = cp.Problem(cp.Minimize(tau), rows)
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    for tolerance in (1e-9, 1e-8):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(solver=cp.CLARABEL, **dict.fromkeys(names, tolerance))
        except cp.SolverError:
            continue
        if problem.status in (cp.OPTIMAL, cp.INFEASIBLE):
            break
    if problem.status == cp.INFEASIBLE:
        return "infeasible", np.inf
    if problem.status != cp.OPTIMAL or b.value is None:
        return "undecided", np.inf
    if (v_at(seen, b_hz * near_s * np.exp((b.value + t.value)[0])) > MOST_LOG_SNR).any():
        return "undecided", np.inf
    return "solved", float(np.exp(tau.value)) * near_s


def v_at(seen: Observation, hertz_seconds: np.ndarray) -> np.ndarray:
    """log(1 + SNR) of uploads that use given hertz-seconds."""
    return seen.upload_bits * np.log(2) / hertz_seconds
