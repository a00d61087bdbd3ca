"""What the coordinator learns from reports: how the world departs from the scenario's.

For every device the cycles of its training and the time of its uploads, for every pair of servers
the time of its gossip, each as a multiple of what the scenario lets expect. And the seconds of an
edge round that no law of the scenario knows: orders and models on their way, averages, evaluation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LAST = 5
"""Reports that a value is made from."""
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


class Learned:
    """All values that are learned in a run."""

    def __init__(self, devices: int, edges: int) -> None:
        self.cycles = [Multiple() for _ in range(devices)]
        self.upload = [Multiple() for _ in range(devices)]
        self.backhaul = [Multiple() for _ in range(edges)]
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
