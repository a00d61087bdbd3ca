"""P2.1 as a convex program for CVXPY and Clarabel: another tool's answer to `allocate`.

Stated in upload times t instead of bandwidths, which leaves only 1/x and x^2 of single variables,

    minimise    the sum over clusters of tau_c
    subject to  W / f + t <= tau_c,  p t + (alpha/2) W f^2 <= E,
                sum of k / t <= b_c,  f_min <= f <= f_max,

so it is convex as it stands. Every variable is scaled to
order one and every energy row to a largest coefficient of one: unscaled, Clarabel loses half its
digits on a thousand devices.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Literal

import cvxpy as cp
import numpy as np

from fedrt.world.observation import Observation

Verdict = Literal["solved", "infeasible", "undecided"]

# Far below the 1e-6 that the comparison asks for. Clarabel's tolerances are relative to the
# greatest number in the problem, so a pass counts only if it keeps every constraint to RESIDUAL of
# that constraint's own size; and as one status `optimal` may still be 1e-6 off (with a thousand
# cones 1e-5), an answer is two passes that agree, each scaled by the one before.
TOLERANCES = (1e-10, 1e-10, 1e-9, 1e-9)
RESIDUAL = 1e-9
AGREEMENT = 1e-7

# A parametrised problem is built once per shape; compiling one for many devices costs more than
# it saves.
MOST_PARAMETRISED = 64


@dataclass(frozen=True)
class Answer:
    """What the solver says: whether it solved the problem, and the solution in SI units."""

    verdict: Verdict
    time_s: np.ndarray | None = None
    """Per cluster, the least tau."""
    bandwidth_hz: np.ndarray | None = None
    cpu_hz: np.ndarray | None = None


@dataclass(frozen=True)
class Scaled:
    """The coefficients of the scaled problem and the scales that undo it."""

    compute: np.ndarray
    upload: np.ndarray
    need: np.ndarray
    send_energy: np.ndarray
    compute_energy: np.ndarray
    energy: np.ndarray
    slowest: np.ndarray
    range: np.ndarray
    free: np.ndarray
    time_scale: np.ndarray
    upload_scale: np.ndarray
    cpu_scale: np.ndarray
    bandwidth: np.ndarray
    """k / t_scale: Hz per unit of 1 / u."""


class AllocationProblem:
    """The program for clusters of fixed sizes, compiled once and solved for ever new numbers."""

    def __init__(self, edge_of_device: np.ndarray, values: Scaled | None = None) -> None:
        """Parametrised unless `values` are given, which are then written into the problem."""
        n, c = len(edge_of_device), int(edge_of_device.max()) + 1
        self.edge_of_device = np.asarray(edge_of_device)
        self.parameters = {
            name: cp.Parameter(n, nonneg=True)
            for name in (
                "compute",
                "upload",
                "need",
                "send_energy",
                "compute_energy",
                "energy",
                "slowest",
                "range",
                "free",
            )
        }
        # `energy` is 0 where a budget is negative: nothing fits then, as it should be.
        v = self.parameters if values is None else vars(values)
        self.u = cp.Variable(n)  # upload time over its scale
        self.h = cp.Variable(n)  # frequency above its minimum over its scale
        self.s = cp.Variable(c)  # tau over its scale
        member = np.zeros((c, n))
        member[self.edge_of_device, np.arange(n)] = 1.0
        mul = cp.multiply
        # Frequency over its scale. With bounds on h and not on this, a range of one point (then
        # `free` is 0) leaves the problem an interior, which Clarabel needs to be accurate. It is a
        # variable of its own because parameters may not multiply expressions of parameters (DPP).
        self.g = cp.Variable(n)
        self.problem = cp.Problem(
            cp.Minimize(cp.sum(self.s)),
            [
                mul(v["compute"], cp.inv_pos(self.g)) + mul(v["upload"], self.u)
                <= member.T @ self.s,
                mul(v["send_energy"], self.u) + mul(v["compute_energy"], cp.square(self.g))
                <= v["energy"],
                member @ mul(v["need"], cp.inv_pos(self.u)) <= 1,
                self.g == v["slowest"] + mul(v["free"], self.h),
                self.h >= 0,
                self.h <= v["range"],
            ],
        )

    def solve(self, seen: Observation, allowance_j: np.ndarray, tolerance: float) -> Answer:
        """The answer of one pass, taken as it is: what a user of CVXPY would do, for timing."""
        scaled = scale(seen, allowance_j)
        verdict = self.solve_scaled(scaled, tolerance, residual=np.inf, warm_start=True)
        return self.answer(seen, scaled) if verdict == "solved" else Answer(verdict)

    def solve_scaled(
        self,
        scaled: Scaled,
        tolerance: float,
        residual: float = RESIDUAL,
        warm_start: bool = False,
    ) -> Verdict:
        """Run Clarabel once and read its status. A cold start makes it repeatable."""
        for name, parameter in self.parameters.items():
            parameter.value = getattr(scaled, name)
        names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate" is read from the status
                self.problem.solve(
                    solver=cp.CLARABEL, warm_start=warm_start, **dict.fromkeys(names, tolerance)
                )
        except cp.SolverError:
            return "undecided"
        if self.problem.status == cp.OPTIMAL:
            return "solved" if self.worst_residual(scaled) <= residual else "undecided"
        return "infeasible" if self.problem.status == cp.INFEASIBLE else "undecided"

    def worst_residual(self, v: Scaled) -> float:
        """By how much of its own size the most broken constraint is broken."""
        u, g = self.u.value, self.g.value
        if np.any(u <= 0) or np.any(g <= 0):
            return np.inf
        late = (v.compute / g + v.upload * u) / self.s.value[self.edge_of_device] - 1
        over = (v.send_energy * u + v.compute_energy * g**2) / np.maximum(v.energy, 1e-300) - 1
        need = np.bincount(self.edge_of_device, weights=v.need / u) - 1
        fast = g / (v.slowest + v.free * v.range) - 1
        slow = 1 - g / v.slowest
        return float(max(late.max(), over.max(), need.max(), fast.max(), slow.max()))

    def rescale(self, seen: Observation, allowance_j: np.ndarray, scaled: Scaled) -> Scaled:
        """The problem in units of the last, inaccurate answer; as it was if there is none."""
        u, g, s = self.u.value, self.g.value, self.s.value
        if u is None or s is None or not (np.all(s > 0) and np.all(u > 0) and np.all(g > 0)):
            return scaled
        time, upload = s * scaled.time_scale, u * scaled.upload_scale
        return scale(seen, allowance_j, time, upload, g * scaled.cpu_scale)

    def answer(self, seen: Observation, scaled: Scaled) -> Answer:
        """The solution in SI units."""
        return Answer(
            "solved",
            time_s=self.s.value * scaled.time_scale,
            bandwidth_hz=scaled.bandwidth / self.u.value,
            cpu_hz=scaled.cpu_scale * self.g.value,
        )


def scale(
    seen: Observation,
    allowance_j: np.ndarray,
    time_scale: np.ndarray | None = None,
    upload_scale: np.ndarray | None = None,
    cpu_scale: np.ndarray | None = None,
) -> Scaled:
    """The coefficients, with each time measured in what it should roughly be."""
    k = seen.model_bits / np.log2(1.0 + seen.snr)
    edge = seen.edge_of_device
    a = seen.capacitance * seen.cycles / 2
    # The highest frequency that the budget allows: above it lies nothing feasible.
    with np.errstate(invalid="ignore"):
        budget_hz = np.sqrt(np.maximum(allowance_j, 0.0) / a)
    top_hz = np.clip(budget_hz, seen.cpu_min_hz, seen.cpu_max_hz)
    fastest_s = seen.cycles / top_hz
    if cpu_scale is None:
        cpu_scale = top_hz
    if time_scale is None:
        whole_s = seen.sum_by_edge(k) / seen.edge_bandwidth_hz
        time_scale = whole_s + seen.max_by_edge(fastest_s)
    limited = np.isfinite(allowance_j)
    spare_j = np.where(limited, allowance_j, 0.0) - a * seen.cpu_min_hz**2
    if upload_scale is None:
        upload_scale = time_scale[edge].copy()
        capped = limited & (seen.tx_power_w > 0) & (spare_j > 0)
        upload_scale[capped] = np.minimum(
            upload_scale[capped], spare_j[capped] / seen.tx_power_w[capped]
        )
    send = np.where(limited, seen.tx_power_w * upload_scale, 0.0)
    compute = np.where(limited, a * cpu_scale**2, 0.0)
    energy = np.where(limited, np.maximum(allowance_j, 0.0), 1.0)
    largest = np.maximum(np.maximum(send, compute), energy)
    return Scaled(
        compute=seen.cycles / cpu_scale / time_scale[edge],
        upload=upload_scale / time_scale[edge],
        need=k / upload_scale / seen.edge_bandwidth_hz[edge],
        send_energy=send / largest,
        compute_energy=compute / largest,
        energy=energy / largest,
        slowest=seen.cpu_min_hz / cpu_scale,
        range=np.where(top_hz > seen.cpu_min_hz, (top_hz - seen.cpu_min_hz) / cpu_scale, 1.0),
        free=(top_hz > seen.cpu_min_hz).astype(np.float64),
        cpu_scale=cpu_scale,
        time_scale=time_scale,
        upload_scale=upload_scale,
        bandwidth=k / upload_scale,
    )


@cache
def _parametrised(size: int) -> AllocationProblem:
    return AllocationProblem(np.zeros(size, dtype=np.int64))


def solve_cluster(seen: Observation, allowance_j: np.ndarray) -> Answer:
    """The solver's answer for an observation of a single cluster, or that it has none."""
    scaled, before = scale(seen, allowance_j), np.inf
    for tolerance in TOLERANCES:
        if seen.num_devices <= MOST_PARAMETRISED:
            problem = _parametrised(seen.num_devices)
        else:
            problem = AllocationProblem(seen.edge_of_device, scaled)
        verdict = problem.solve_scaled(scaled, tolerance)
        if verdict == "infeasible":
            return Answer(verdict)
        if verdict == "solved":
            answer = problem.answer(seen, scaled)
            if abs(answer.time_s[0] / before - 1) <= AGREEMENT:
                return answer
            before = answer.time_s[0]
        scaled = problem.rescale(seen, allowance_j, scaled)
    return Answer("undecided")
