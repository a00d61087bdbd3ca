"""The paper's FEMNIST on real data: its writers, and that a few rounds of it learn.

Needs FEDRT_DATA to name a folder with femnist in it, in any of the forms that are read.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support import learning_cases  # noqa: F401  (one thread)

from fedrt.data.catalogue import load_dataset
from fedrt.data.originals import ORIGINALS
from fedrt.data.partitions import load_divided
from fedrt.learning.setup import make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.world.simulated import SimulatedWorld

FOLDER = os.environ.get("FEDRT_DATA")
HAS_FEMNIST = bool(FOLDER and Path(FOLDER).is_dir() and ORIGINALS["femnist"].found(Path(FOLDER)))

pytestmark = pytest.mark.skipif(not HAS_FEMNIST, reason="FEDRT_DATA names no folder with femnist")

SMALL = (
    "fleet.num_edges=4",
    "fleet.num_devices=16",
    "rounds.global_rounds=3",
    "rounds.local_steps=2",
    "learning.batch_size=8",
    "learning.learning_rate=0.05",
    "learning.evaluate_every=3",
)


@pytest.mark.parametrize("seed", [0, 1])
def test_each_device_is_a_writer(seed):
    """Who wrote a sample is looked up in the whole data set, by its pixels and label."""
    world = SimulatedWorld(load_scenario("paper/femnist", SMALL[:2]), seed)
    whole = load_dataset("femnist")
    dataset, parts = load_divided(
        world.scenario.learning, None, world.fleet.edge_of_device, world.seed
    )
    images = np.concatenate([whole.train_images, whole.test_images])
    labels = np.concatenate([whole.train_labels, whole.test_labels])
    writer = np.concatenate([whole.train_writer, whole.test_writer])
    writers_of: dict[tuple[bytes, int], set[int]] = {}
    for image, label, who in zip(images, labels.tolist(), writer.tolist(), strict=True):
        writers_of.setdefault((image.tobytes(), label), set()).add(who)
    written = np.bincount(writer)

    def author(pictures: np.ndarray, names: np.ndarray) -> int:
        """The one writer of all these samples."""
        keys = ((p.tobytes(), n) for p, n in zip(pictures, names.tolist(), strict=True))
        (only,) = set.intersection(*(writers_of[key] for key in keys))
        return only

    assert len(parts) == 16
    authors = []
    for n, own in enumerate(parts):
        authors.append(author(dataset.train_images[own], dataset.train_labels[own]))
        tested = dataset.test_writer == n
        assert author(dataset.test_images[tested], dataset.test_labels[tested]) == authors[-1]
        # Nine tenths train, the rest tests, and nothing is lost.
        assert written[authors[-1]] >= 100
        assert len(own) + tested.sum() == written[authors[-1]]
        assert tested.sum() == round(0.1 * written[authors[-1]])
    assert len(set(authors)) == 16
    assert len(dataset.test_labels) == np.rint(0.1 * written[authors]).sum()
    assert_array_equal(np.sort(np.concatenate(list(parts))), np.arange(len(dataset.train_labels)))
    assert dataset.num_classes == 62


@pytest.mark.slow
def test_a_few_rounds_learn():
    world = SimulatedWorld(load_scenario("paper/femnist", SMALL), 0)
    setup = make_setup(world)
    assert setup.model.num_parameters == 272_814
    rounds = list(simulate_rounds(world, make_policy("fedrt"), Trainer(setup)))
    losses = [done.metrics["loss"] for done in rounds]
    # ln 62 = 4.13 is what knowing nothing costs.
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.9 * losses[0]
    assert np.isnan([done.metrics["accuracy"] for done in rounds]).tolist() == [True, True, False]
    assert 0 <= rounds[-1].metrics["accuracy"] <= 1
    assert (rounds[-1].last.after.spent_j > 0).all()
