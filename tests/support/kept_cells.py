"""Small cells for tests: a column that trains in a tenth of a second, and cells made by hand."""

from __future__ import annotations

import numpy as np

from fedrt.experiments.cells import Column
from fedrt.experiments.kept import LEARNED, Kept
from fedrt.studies.training import RunOptions
from support.trained import TRAINING

TINY = Column(
    "tiny",
    "Tiny",
    "quickstart",
    (*TRAINING, "rounds.local_steps=8", "fleet.energy_j_per_edge_round=0.05"),
)
OPTIONS = RunOptions(engine="sequential", checkpoint_every=2)


def made_up(name: str, hours: float, joules: float, accuracies: list[float]) -> Kept:
    """A cell with evenly growing time and energy, and an accuracy for every round."""
    count = len(accuracies)
    share = np.arange(1, count + 1) / count
    rounds = {each: np.ones(count) for each in LEARNED}
    rounds |= {"ends_at_s": 3600 * hours * share, "energy_j_mean": joules * share}
    rounds["accuracy"] = np.array(accuracies)
    rounds["loss"] = 2.0 - share
    about = {"cell": name, "policy": "p", "seed": 0, "scenario": "", "train_wall_s": 1.0}
    return Kept(about, rounds, np.zeros((count, 1)), np.zeros(count, np.uint64))


def quiet(line):
    pass
