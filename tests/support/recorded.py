"""Edge rounds taken apart, so that what was read back can be compared to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np

from fedrt.records.checkpoint import Checkpoints
from fedrt.records.records import RunSize
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.rounds import PastEdgeRound
from fedrt.world.simulated import SimulatedWorld


def parts(value):
    """A value taken apart, arrays as their bytes: equal parts mean equal to the bit."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if is_dataclass(value):
        return {f.name: parts(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return [(key, np.float64(number).tobytes()) for key, number in value.items()]
    return (type(value).__name__, value)


def past(turn) -> PastEdgeRound:
    return PastEdgeRound(turn.seen, turn.plan, turn.outcome)


def rounds_of(scenario, policy, models=None):
    """All global rounds of a simulated run."""
    return list(simulate_rounds(SimulatedWorld(scenario, 0), policy, models))


def check_read_back(folder: Path, size: RunSize, rounds: Sequence) -> None:
    """The records in a run folder are the edge rounds of these global rounds, to the bit."""
    read = Checkpoints(folder).load_records(len(rounds), size)
    for turns, again in zip(rounds, read, strict=True):
        for turn, other in zip(turns, again, strict=True):
            assert parts(other) == parts(past(turn))
