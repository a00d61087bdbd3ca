"""The convergence bound of hierarchical SGD with peer-to-peer mixing, as the paper restates it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike


def omega_1(zeta: float, gossip_steps: int) -> float:
    """The paper's Omega_1 = zeta^(2 psi) / (1 - zeta^(2 psi)); inf where nothing is mixed."""
    left = zeta ** (2 * gossip_steps)
    return left / (1 - left) if left < 1 else inf


def omega_2(zeta: float, gossip_steps: int) -> float:
    """The paper's Omega_2, at least 3; inf if the servers do not mix at all.

    It is 1 / (1 - zeta^(2 psi)) + 2 / (1 - zeta^psi) + zeta^psi / (1 - zeta^psi)^2.
    """
    left = zeta**gossip_steps
    if left >= 1:
        return inf
    return 1 / (1 - left**2) + 2 / (1 - left) + left / (1 - left) ** 2


@dataclass(frozen=True)
class ConvergenceBound:
    """The six terms that bound the mean squared gradient norm, and whether they apply."""

    initial: float
    variance: float
    mixing: float
    inter_cluster: float
    local: float
    intra_cluster: float
    greatest_learning_rate: float
    holds: bool
    """Whether eta <= min(1 / (2 L S), 1 / (2 sqrt(2 Omega_2) L R S)), as the proof needs."""

    @property
    def total(self) -> float:
        """The bound: the sum of the six terms."""
        return (
            self.initial
            + self.variance
            + self.mixing
            + self.inter_cluster
            + self.local
            + self.intra_cluster
        )


def convergence_bound(
    *,
    learning_rate: float,
    smoothness: float,
    gradient_noise: float,
    initial_gap: float,
    inter_cluster_divergence: float,
    intra_cluster_divergence: ArrayLike,
    cluster_sizes: ArrayLike,
    global_rounds: int,
    edge_rounds: int,
    local_steps: int,
    gossip_steps: int,
    zeta: float,
) -> ConvergenceBound:
    """The bound on (1 / Phi) sum of E |grad F(u)|^2 over the Phi = T R S iterations.

    2 gap / (eta Phi) + eta L sigma^2 / N + 8 eta^2 L^2 (Omega_1 + (C - 1) / N) R S sigma^2
    + 16 eta^2 L^2 R^2 S^2 Omega_2 eps^2 + 8 (N - C) / N eta^2 L^2 S sigma^2
    + 16 L^2 eta^2 S^2 sum of (N_c / N) eps_c^2, where L is `smoothness`, sigma
    `gradient_noise`, eps and eps_c the divergences between and inside clusters.
    """
    sizes = np.asarray(cluster_sizes, dtype=np.float64)
    devices, edges = float(sizes.sum()), len(sizes)
    steps, rounds = local_steps, edge_rounds
    el = (learning_rate * smoothness) ** 2
    noise = gradient_noise**2
    om1, om2 = omega_1(zeta, gossip_steps), omega_2(zeta, gossip_steps)
    intra = float(np.sum(sizes / devices * np.asarray(intra_cluster_divergence) ** 2))
    greatest = 1 / (2 * smoothness * steps)
    if om2 < inf:
        greatest = min(greatest, 1 / (2 * sqrt(2 * om2) * smoothness * rounds * steps))
    else:
        greatest = 0.0
    return ConvergenceBound(
        initial=2 * initial_gap / (learning_rate * global_rounds * rounds * steps),
        variance=learning_rate * smoothness * noise / devices,
        mixing=8 * el * (om1 + (edges - 1) / devices) * rounds * steps * noise,
        inter_cluster=16 * el * (rounds * steps) ** 2 * om2 * inter_cluster_divergence**2,
        local=8 * (devices - edges) / devices * el * steps * noise,
        intra_cluster=16 * el * steps**2 * intra,
        greatest_learning_rate=greatest,
        holds=learning_rate <= greatest,
    )
