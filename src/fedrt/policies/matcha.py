"""MATCHA: links sampled in matchings, those that matter for connectivity more often.

J. Wang, A. K. Sahu, Z. Yang, G. Joshi and S. Kar, "MATCHA: Speeding Up Decentralized SGD via
Matching Decomposition Sampling", 2019. The base graph is divided into matchings. Matching j is used
with the probability p_j; the probabilities make the expected graph as well connected as the budget
allows, and the mixing weight alpha of all links makes the expected contraction least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix, links_of
from fedrt.ledger import Books, Horizon
from fedrt.plan import Gossip, Plan
from fedrt.policies.base import even_plan, keep_all_links
from fedrt.seeding import uniforms
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]

STEPS, SECTIONS = 300, 60
"""Of the ascent to the best probabilities, and of the golden section to the best weight."""
MANY = 64
FEW_STEPS, FEW_SECTIONS = 40, 25
"""The same beyond so many servers, where each takes long: within half a percent of the best."""
SEED = 0
"""Of the draws, which are keyed by the round; the same in every run."""


@dataclass(frozen=True)
class Sampling:
    """The matchings of a base graph, how likely each is used, and the weight of a link."""

    matchings: tuple[BoolMatrix, ...]
    chance: FloatArray
    weight: float

    def links(self, t: int) -> BoolMatrix:
        """The links of global round t."""
        drawn = uniforms(np.arange(len(self.matchings)), SEED, "matcha", t) < self.chance
        links = np.zeros_like(self.matchings[0])
        for used, matching in zip(drawn, self.matchings, strict=True):
            links |= matching & bool(used)
        return links


@dataclass(frozen=True)
class Matcha:
    """An even split, and one gossip step over sampled links."""

    name: str = "matcha"
    energy_horizon: Horizon = "paper"
    budget: float = 0.5
    """The expected share of the matchings that are used in a round."""

    def plan(self, seen: Observation, books: Books) -> Plan:
        plan = even_plan(seen, books, self.energy_horizon, keep_all_links)
        if seen.backhaul is None or seen.num_edges == 1:
            return plan
        base = seen.backhaul.base_graph
        sampling = _sampling(base.tobytes(), len(base), self.budget)
        links = sampling.links(seen.t)
        weights = np.where(links, sampling.weight, 0.0)
        np.fill_diagonal(weights, 1.0 - weights.sum(axis=1))
        gossip = Gossip(links, 1, weights, sampled=True)
        return replace(plan, gossip=gossip)


@lru_cache(maxsize=64)
def _sampling(base: bytes, servers: int, budget: float) -> Sampling:
    """The sampling of a base graph, which changes where links fail."""
    return sampling_of(np.frombuffer(base, dtype=bool).reshape(servers, servers), budget)


def sampling_of(base: BoolMatrix, budget: float) -> Sampling:
    """The matchings of a base graph, and the best chances and weight within the budget."""
    matchings = matchings_of(base)
    if not matchings:
        return Sampling((np.zeros_like(base),), np.zeros(1), 0.0)
    laplacians = np.array([_laplacian(each) for each in matchings])
    chance = _best_chances(laplacians, budget)
    return Sampling(matchings, chance, _best_weight(laplacians, chance))


def matchings_of(base: BoolMatrix) -> tuple[BoolMatrix, ...]:
    """A division of all links into matchings, each link to the first that has both ends free."""
    found: list[BoolMatrix] = []
    rows, cols = links_of(base)
    # Servers with many links first: they decide how many matchings there are.
    degree = base.sum(axis=1)
    order = np.argsort(-(degree[rows] + degree[cols]), kind="stable")
    for one, two in zip(rows[order].tolist(), cols[order].tolist(), strict=True):
        for matching in found:
            if not (matching[one].any() or matching[two].any()):
                break
        else:
            matching = np.zeros_like(base)
            found.append(matching)
        matching[one, two] = matching[two, one] = True
    return tuple(found)


def _laplacian(graph: BoolMatrix) -> FloatArray:
    return np.asarray(np.diag(graph.sum(axis=1)) - graph.astype(np.float64))


def _best_chances(laplacians: FloatArray, budget: float) -> FloatArray:
    """The chances of greatest algebraic connectivity: ascent on a concave function.

    Its slope in p_j is v' L_j v, v being the eigenvector of the second least eigenvalue.
    """
    count = len(laplacians)
    chance = np.full(count, min(budget, 1.0))
    best, value = chance, -np.inf
    for step in range(1, (STEPS if laplacians.shape[1] <= MANY else FEW_STEPS) + 1):
        values, vectors = np.linalg.eigh(np.tensordot(chance, laplacians, axes=1))
        if values[1] > value:
            best, value = chance, float(values[1])
        slope = np.einsum("i,jik,k->j", vectors[:, 1], laplacians, vectors[:, 1])
        size = float(np.linalg.norm(slope - slope.mean()))
        if size <= 1e-12:
            break
        chance = _within(chance + slope / (size * np.sqrt(step)), budget * count)
    return best


def _within(chance: FloatArray, total: float) -> FloatArray:
    """The nearest chances from 0 to 1 that add up to no more than a total."""
    if np.clip(chance, 0.0, 1.0).sum() <= total:
        return np.clip(chance, 0.0, 1.0)
    low, high = float(chance.min()) - 1.0, float(chance.max())
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip(chance - middle, 0.0, 1.0).sum() > total:
            low = middle
        else:
            high = middle
    return np.clip(chance - high, 0.0, 1.0)


def _best_weight(laplacians: FloatArray, chance: FloatArray) -> float:
    """The weight alpha of least expected contraction, by golden section.

    That is the spectral norm of E[W'W] - J = I - 2 a L + a^2 (L^2 + 2 V) - J with the expected
    Laplacian L and V = sum of p_j (1 - p_j) L_j, because a matching's Laplacian has L_j^2 = 2 L_j.
    """
    mean = np.tensordot(chance, laplacians, axes=1)
    spread = np.tensordot(chance * (1 - chance), laplacians, axes=1)
    size = len(mean)
    rest = np.eye(size) - np.full((size, size), 1.0 / size)
    square = mean @ mean + 2 * spread

    def left(weight: float) -> float:
        return float(np.linalg.eigvalsh(rest - 2 * weight * mean + weight**2 * square)[-1])

    low, high = 0.0, 2.0 / max(float(np.linalg.eigvalsh(mean)[-1]), 1e-12)
    ratio = (np.sqrt(5.0) - 1) / 2
    for _ in range(SECTIONS if size <= MANY else FEW_SECTIONS):
        one, two = high - ratio * (high - low), low + ratio * (high - low)
        if left(one) <= left(two):
            high = two
        else:
            low = one
    return (low + high) / 2
