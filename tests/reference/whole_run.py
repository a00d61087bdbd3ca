"""The least time of a whole run by exhaustive search and CVXPY: what no bound may exceed.

Every subset of the links and every number of gossip steps is tried in every global round; for each
combination the rest, frequencies and uploads of all edge rounds at once with the future known, is
one convex program. Meant for a few devices, two to four servers and two or three rounds.
"""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np

from fedrt.bound.whole_run import relaxed_run
from fedrt.control.topology.consensus import see_backhaul
from fedrt.world.simulated import SimulatedWorld

SLACK = 1e-7
"""Room for the solver's rounding in comparing a contraction with its limit."""


def least_zeta(graph: np.ndarray) -> float:
    """The least contraction over all symmetric weights on the links (a semidefinite program)."""
    size = len(graph)
    mixing = cp.Variable((size, size), symmetric=True)
    absent = (~graph & ~np.eye(size, dtype=bool)).astype(float)
    problem = cp.Problem(
        cp.Minimize(cp.sigma_max(mixing - np.full((size, size), 1 / size))),
        [cp.sum(mixing, axis=1) == 1, cp.multiply(mixing, absent) == 0],
    )
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def connected(graph: np.ndarray) -> bool:
    size = len(graph)
    return bool((np.linalg.matrix_power(graph + np.eye(size), size) > 0).all())


def subsets(base: np.ndarray) -> list[np.ndarray]:
    """Every connected graph inside the base graph."""
    rows, cols = np.nonzero(np.triu(base, k=1))
    found = []
    for kept in itertools.product([False, True], repeat=len(rows)):
        graph = np.zeros_like(base)
        graph[rows[list(kept)], cols[list(kept)]] = True
        graph |= graph.T
        if connected(graph.astype(float)):
            found.append(graph)
    return found


def round_choices(
    bps: np.ndarray, distance: np.ndarray, limit: float, rho: float | None, bits: float, steps: int
) -> list[np.ndarray]:
    """The backhaul times of every allowed choice, less those that another undercuts everywhere."""
    times = []
    for graph in subsets(bps > 0):
        if np.where(graph, 0.0, distance).sum() / len(graph) ** 2 > limit * (1 + 1e-12):
            continue
        zeta = 0.0 if rho is None else least_zeta(graph)
        for psi in range(1, steps + 1):
            if rho is None or zeta**psi <= rho + SLACK:
                with np.errstate(divide="ignore"):
                    step_s = psi * bits / np.where(graph, bps, np.inf)
                times.append(step_s.max(axis=1))
    return [
        a
        for i, a in enumerate(times)
        if not any(
            (b <= a).all() and ((b < a).any() or j < i) for j, b in enumerate(times) if j != i
        )
    ]


class Allocation:
    """Frequencies and uploads of a whole run for given backhaul times, compiled once."""

    def __init__(self, world: SimulatedWorld, limit_j: np.ndarray) -> None:
        relaxed = relaxed_run(world)
        run, noise = relaxed.run, relaxed.noise
        part = np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
        parts, rounds, n = len(run.bandwidth_hz), run.global_rounds, run.device
        member = np.zeros((parts, len(n)))
        member[part, np.arange(len(n))] = 1.0
        ghz, upload_s = cp.Variable(len(n)), cp.Variable(len(n))
        edge_s, round_s = cp.Variable(parts), cp.Variable(rounds)
        self.backhaul_s = cp.Parameter((rounds, run.num_edges), nonneg=True)
        constraints = [
            cp.multiply(run.cycles[n] / 1e9, cp.inv_pos(ghz)) + upload_s <= member.T @ edge_s,
            ghz >= run.cpu_min_hz[n] / 1e9,
            ghz <= run.cpu_max_hz[n] / 1e9,
        ]
        if noise is None:
            share = cp.multiply(run.k / run.bandwidth_hz[part], cp.inv_pos(upload_s))
        else:
            # Rates are b log(1 + g / b) with b and g in parts of the cluster's bandwidth.
            whole_hz, share = noise.bandwidth_hz[part], cp.Variable(len(n))
            rate = -cp.rel_entr(share, share + noise.cn0_hz / whole_hz) / np.log(2)
            constraints.append(
                cp.multiply(run.k / run.bit_hz_s / whole_hz, cp.inv_pos(upload_s)) <= rate
            )
        constraints.append(member @ share <= 1)
        for t, c in itertools.product(range(rounds), range(run.num_edges)):
            own = [(t * run.edge_rounds + r) * run.num_edges + c for r in range(run.edge_rounds)]
            constraints.append(cp.sum(edge_s[own]) + self.backhaul_s[t, c] <= round_s[t])
        energy_j = cp.multiply(run.tx_power_w[n], upload_s)
        energy_j += cp.multiply(run.joules_per_hz2[n] * 1e18, cp.square(ghz))
        for device in np.flatnonzero(np.isfinite(limit_j)).tolist():
            mine = np.flatnonzero(n == device).tolist()
            constraints.append(cp.sum(energy_j[mine]) <= limit_j[device])
        self.problem = cp.Problem(cp.Minimize(cp.sum(round_s)), constraints)

    def least_time_s(self, backhaul_s: np.ndarray) -> float:
        self.backhaul_s.value = backhaul_s
        self.problem.solve(solver=cp.CLARABEL)
        assert self.problem.status == cp.OPTIMAL
        return float(self.problem.value)


def least_total_time_s(
    world: SimulatedWorld, distances: list[np.ndarray], limit_j: np.ndarray, rho: float | None
) -> float:
    """The least time over all plans within the limits."""
    choices = []
    for t, distance in enumerate(distances):
        seen = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
        choices.append(
            round_choices(
                seen.bps,
                seen.consensus_distance,
                seen.consensus_limit,
                rho,
                world.model_bits,
                world.scenario.rounds.gossip_steps,
            )
        )
    allocation = Allocation(world, limit_j)
    return min(allocation.least_time_s(np.array(each)) for each in itertools.product(*choices))
