"""What the coordinator learns from reports: how the world departs from the scenario's.

For every device the cycles of its training and the time of its uploads, for every pair of servers
the time of its gossip, each as a multiple of what the scenario lets expect. The seconds of a gossip
step that do not depend on the length of messages: averages, answers on their way. And the seconds
of an edge round that no law of the scenario knows: orders and models on their way, averages,
evaluation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LAST = 5
"""Reports that a value is made from."""
LAST_STEPS, LEAST_STEPS, WIDE = 20, 3, 1.1
"""Gossips of which the latency of a step is learned, at most and at least; and by what factor the
longest message has to take longer than the shortest."""
LEAST, MOST = 1e-3, 1e3
"""Multiples beyond these are not believed."""


@dataclass
class Multiple:
    """One value that is learned: its last reports, and when the newest came."""

    seen: deque[float] = field(default_factory=lambda: deque(maxlen=LAST))
    at: int = -1
    """The edge round of the newest report, counted from the start of the run."""

    def add(self, ratio: float, now: int) -> None:
        """Take a report in."""
        if np.isfinite(ratio) and ratio > 0:
            self.seen.append(float(np.clip(ratio, LEAST, MOST)))
            self.at = now

    @property
    def value(self) -> float:
        """The median of the last reports; 1 before the first."""
        return float(np.median(self.seen)) if self.seen else 1.0

    @property
    def spread(self) -> float:
        """From the least to the greatest of the last reports."""
        return max(self.seen) - min(self.seen) if self.seen else 0.0


@dataclass(frozen=True)
class GossipStep:
    """A step of a gossip, which takes as long as its slowest link."""

    transfer_s: float
    """What the message alone takes on that link, by the scenario."""
    measured_s: float
    servers: tuple[int, ...]
    """The two that have the link; more if there are several."""


def latency_of(steps: Sequence[GossipStep]) -> float:
    """The seconds of a gossip step that do not depend on how long its message takes; 0 at least.

    The measured seconds are a straight line over those of the message. Its slope is the median of
    the slopes between all pairs of steps, each with the distance of the pair as its weight, its
    height the median of what is left: a few steps that went wrong change neither much.
    """
    if len(steps) < LEAST_STEPS:
        return 0.0
    x, y = np.array([(each.transfer_s, each.measured_s) for each in steps]).T
    if x.max() < WIDE * x.min():
        return 0.0
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] - x[i]
    i, j, apart = i[apart != 0], j[apart != 0], apart[apart != 0]
    slopes, weights = (y[j] - y[i]) / apart, np.abs(apart)
    order = np.argsort(slopes)
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    slope = max(float(slopes[order][half]), 0.0)
    return max(float(np.median(y - slope * x)), 0.0)


class Learned:
    """All values that are learned in a run."""

    def __init__(self, devices: int, edges: int) -> None:
        self.cycles = [Multiple() for _ in range(devices)]
        self.upload = [Multiple() for _ in range(devices)]
        self.backhaul = [Multiple() for _ in range(edges)]
        self.gossip_steps: deque[GossipStep] = deque(maxlen=LAST_STEPS)
        self.gossip_latency_s = 0.0
        """What a gossip step takes beyond its message and the scenario's round trip."""
        self.beyond_s: deque[float] = deque(maxlen=LAST)
        """What edge rounds took by the clock beyond training, uploads and gossip."""

    def cycles_of(self, devices: NDArray[np.int64]) -> FloatArray:
        """For each device, the multiple of its cycles."""
        return np.array([self.cycles[n].value for n in devices.tolist()])

    def upload_of(self, devices: NDArray[np.int64]) -> FloatArray:
        """For each device, the multiple of the time of its uploads."""
        return np.array([self.upload[n].value for n in devices.tolist()])

    @property
    def overhead_s(self) -> float:
        """What an edge round takes by the clock beyond what the cost model knows."""
        return float(np.median(self.beyond_s)) if self.beyond_s else 0.0

    def add_gossip(self, step: GossipStep, now: int) -> None:
        """Take in what a step of a gossip took: how long beyond its message, and how long for it.

        Every server waits for its neighbours in each step, and so all of them for the slowest
        link: the times of others tell nothing of their own.
        """
        self.gossip_steps.append(step)
        self.gossip_latency_s = latency_s = latency_of(self.gossip_steps)
        for c, held in enumerate(self.backhaul):
            own = [each for each in self.gossip_steps if c in each.servers][-LAST:]
            held.seen.clear()
            for each in own:
                ratio = max((each.measured_s - latency_s) / each.transfer_s, LEAST)
                held.add(ratio, now if c in step.servers else held.at)

    def backhaul_factor(self) -> FloatArray:
        """For every pair of servers, the multiple of the time of a message: the slower one's."""
        own = np.array([each.value for each in self.backhaul])
        return np.maximum(own[:, None], own[None, :])

    def table(self, now: int) -> dict[str, list[dict[str, float]]]:
        """Every value with its spread and its age in edge rounds, to be saved and shown."""
        return {
            name: [
                {
                    "value": each.value,
                    "spread": each.spread,
                    "age": now - each.at if each.seen else -1,
                }
                for each in getattr(self, name)
            ]
            for name in ("cycles", "upload", "backhaul")
        }
