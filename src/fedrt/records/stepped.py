"""Devices whose codecs were stepped up in a run: a column of the tables, and the summary's list."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrt.messages import LADDER
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.rounds import EdgeRound, GlobalRound

MOST_NAMED = 100
"""Devices that a summary names one by one."""


def stepped_devices(turn: EdgeRound) -> list[dict[str, Any]]:
    """The devices that were stepped up after an edge round: round, device, and both codecs."""
    steps = turn.outcome.stepped_up
    if steps is None:
        return []
    return [
        {
            "global_round": turn.t,
            "edge_round": turn.r,
            "device": int(turn.seen.device[n]),
            "from": LADDER[int(steps[n]) - 1],
            "to": LADDER[int(steps[n])],
        }
        for n in np.flatnonzero(steps != NOT_STEPPED).tolist()
    ]


class StepUps:
    """The devices that were stepped up in a run, in the order in which it happened."""

    def __init__(self) -> None:
        self.count = 0
        self.named: list[dict[str, Any]] = []

    def add(self, done: GlobalRound) -> int:
        """Add one global round; how many devices were stepped up in it."""
        found = [each for turn in done.edge_rounds for each in stepped_devices(turn)]
        self.count += len(found)
        self.named += found[: MOST_NAMED - len(self.named)]
        return len(found)

    def summary(self) -> dict[str, Any]:
        """How many there were, and the first of them by name."""
        return {"count": self.count, "named": self.named}
