"""What faults and attacks cost in accuracy on digits, against the same run undisturbed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario import load_scenario

pytestmark = pytest.mark.slow


COMMON = ("learning.model=support.trained:Perceptron", "learning.model_bits=measured")


@cache
def accuracy(seed: int, *settings: str) -> float:
    """The mean of a run's last five evaluations: one moment's luck counts a fifth."""
    world = make_world(load_scenario("quickstart", [*COMMON, *settings]), seed)
    setup = make_setup(world, engine="stacked", chunk=36, workers=1)
    rounds = simulate_rounds(world, make_policy("fedrt"), Trainer(setup))
    return float(np.mean([done.metrics["accuracy"] for done in rounds][-5:]))


EIGHT = (
    "fleet.num_edges=8",
    "fleet.num_devices=24",
    "rounds.global_rounds=25",
    "learning.learning_rate=0.1",
)


@pytest.mark.parametrize("seed", [0, 1])
def test_silent_devices_and_a_server_that_is_often_down_cost_at_most_two_points(seed):
    """10 % of the devices silent, one of eight servers down a third of the time; Dirichlet data."""
    undisturbed = accuracy(seed, *EIGHT)
    assert undisturbed > 0.93
    failing = accuracy(
        seed,
        *EIGHT,
        "faults.silent={kind='random',probability=0.1}",
        "faults.server_down={kind='markov',mean_up=4,mean_down=2,only=[0]}",
    )
    assert failing >= undisturbed - 0.02


NINE = (
    "fleet.num_edges=4",
    "fleet.num_devices=36",
    "rounds.global_rounds=30",
    "learning.partition={kind='iid'}",
)
FLIPPED = "faults.attack={kind='sign-flip',share=0.2223}"


@pytest.mark.parametrize("seed", [0, 1])
def test_a_trimmed_mean_bears_two_of_nine_flipped_updates_better_than_a_plain_one(seed):
    undisturbed = accuracy(seed, *NINE)
    unscreened = (*NINE, FLIPPED, "learning.screening=false")
    plain = accuracy(seed, *unscreened)
    trimmed = accuracy(seed, *unscreened, "learning.averaging=trimmed-mean")
    assert undisturbed > 0.93
    assert trimmed >= undisturbed - 0.03
    assert plain < trimmed
    # Where updates are screened, a plain mean bears them as well.
    assert accuracy(seed, *NINE, FLIPPED) >= undisturbed - 0.03
