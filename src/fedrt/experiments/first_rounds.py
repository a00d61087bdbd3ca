"""The first rounds of two small trainings in float32, as a regression test.

Cells of the table take a GPU to train again; these take seconds on any machine. Both are chosen so
that processors and libraries agree to about seven digits (`docs/training.md`, "How far equal runs
drift apart"): digits train a model whose gradient has no jumps, FEMNIST trains the paper's model
with steps so small that rounding errors do not grow from round to round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedrt.experiments.cells import Column
from fedrt.policies import make_policy
from fedrt.records.options import RunOptions
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.studies.training import opened_trainer

SHORT = ("rounds.global_rounds=3", "learning.evaluate_every=1")
CASES = {
    "digits": Column("digits", "digits", "quickstart", (*SHORT, 'learning.model="smooth-cnn"')),
    "femnist": Column(
        "femnist-small",
        "FEMNIST, 8 writers",
        "paper/femnist",
        (
            *SHORT,
            "fleet.num_edges=4",
            "fleet.num_devices=8",
            "rounds.local_steps=2",
            "learning.batch_size=8",
            "learning.learning_rate=0.0005",
        ),
    ),
}


def first_rounds(case: str, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Loss, distances, accuracy, seconds and joules of each round under `fedrt`, seed 0."""
    options = RunOptions(
        engine="sequential", device="cpu", data_dir=None if data_dir is None else str(data_dir)
    )
    world = make_world(CASES[case].load(), 0, data_dir)
    with opened_trainer(world, options, None) as trainer:
        return [
            {
                "loss": done.metrics["loss"],
                "consensus": done.metrics["consensus"],
                "accuracy": done.metrics["accuracy"],
                "ends_at_s": done.ends_at_s,
                "energy_j_mean": float(done.last.after.spent_j.mean()),
            }
            for done in simulate_rounds(world, make_policy("fedrt"), trainer)
        ]
