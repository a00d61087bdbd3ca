"""How training is set up: what is said of data that seem wrong, and which images are augmented."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.data_files import write_own
from support.learning_cases import small

from fedrt.errors import InputError
from fedrt.learning.material import make_material
from fedrt.learning.setup import make_setup
from fedrt.world.simulated import SimulatedWorld

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((3, 8, 8), ["taken as 3 x 8 with 8 channels; if they are 8 x 8 with 3,"]),
        ((1, 8, 8), ["taken as 1 x 8 with 8 channels; if they are 8 x 8 with 1,"]),
        ((8, 8, 3), []),
        ((1, 8, 9), []),
        ((3, 3, 3), []),
    ],
)
def test_images_whose_channels_seem_to_come_first_get_a_note(tmp_path, shape, words):
    rng = np.random.default_rng(0)
    parts = {"x_train": rng.random((20, *shape)), "x_test": rng.random((8, *shape))}
    write_own(tmp_path / "own.npz", **parts)
    settings = (f'learning.dataset="{tmp_path}/own.npz"', "learning.model=resnet20")
    setup = make_setup(SimulatedWorld(small(*settings, 'learning.partition={kind="iid"}'), 0))
    notes = [line for line in setup.notes if "taken as" in line]
    assert len(notes) == len(words)
    for note, word in zip(notes, words, strict=True):
        assert word in note


@pytest.mark.parametrize(
    ("batch_size", "words"),
    [
        (6, []),
        (7, ["1 of 3 devices hold fewer samples than learning.batch_size = 7, the least 6:"]),
        (8, ["3 of 3 devices hold fewer samples than learning.batch_size = 8, the least 6:"]),
    ],
)
def test_a_batch_larger_than_what_a_device_holds_gets_a_note(tmp_path, batch_size, words):
    write_own(tmp_path / "own.npz")  # 20 training samples: 7, 7 and 6
    settings = (f'learning.dataset="{tmp_path}/own.npz"', 'learning.partition={kind="iid"}')
    three = ("fleet.num_edges=1", "fleet.num_devices=3", "fleet.cluster_sizes=[3]")
    batch = (f"learning.batch_size={batch_size}", "learning.model=support.learning_cases:Linear")
    setup = make_setup(SimulatedWorld(small(*settings, *three, *batch), 0))
    notes = [line for line in setup.notes if "hold fewer samples" in line]
    assert len(notes) == len(words)
    for note, word in zip(notes, words, strict=True):
        assert note.startswith(f"note: {word}")


def test_images_can_be_shifted_and_mirrored_and_nothing_else_can(tmp_path):
    own = 'learning.partition={kind="iid"}'
    for shape, allowed in (((8, 8, 1), True), ((16,), False)):
        rng = np.random.default_rng(0)
        parts = {"x_train": rng.random((20, *shape)), "x_test": rng.random((8, *shape))}
        write_own(tmp_path / "own.npz", **parts)
        settings = (f'learning.dataset="{tmp_path}/own.npz"', "learning.augment=true", own)
        world = SimulatedWorld(small(*settings), 0)
        if allowed:
            make_material(world, torch.device("cpu"), None)
        else:
            with pytest.raises(InputError, match="augment = true: needs images"):
                make_material(world, torch.device("cpu"), None)
