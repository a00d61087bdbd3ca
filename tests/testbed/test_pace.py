"""The pace that devices of a testbed are held to: how it is measured, and kept."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.parties import six, split

from fedrt.errors import InputError
from fedrt.scenario import scenario_text
from fedrt.testbed.pace import averages, core_step_s, described_s, pace_of, pace_words

LOUD = """
import torch
print("made of code")

class Model(torch.nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        print("a layer")
        self.layer = torch.nn.Linear(shape[0] * shape[1] * shape[2], num_classes)

    def forward(self, images):
        return self.layer(images.flatten(1))
"""


def test_a_pace_worked_by_hand():
    """Nine tenths of 0.1 to 1.1 s are at most 1.0 s, and a fifth more is 1.2 s."""
    assert core_step_s([0.1 * n for n in range(1, 12)]) == pytest.approx(1.2)


def test_pieces_are_averages_over_some_time():
    assert averages(np.array([0.1, 0.3, 0.25, 0.1, 0.4, 0.1]), 0.4) == pytest.approx([0.2, 0.25])
    assert averages(np.array([0.1, 0.2]), 9.0) == pytest.approx([0.15])
    assert averages(np.array([5.0]), 0.4) == [5.0]


def test_devices_are_held_to_what_the_scenario_says_of_each():
    """16 samples of 3e6 cycles on a core of 6 GHz take 8 ms, and of 6e6 cycles 16 ms."""
    given = six("fleet.cycles_per_sample=[3e6, 3e6, 3e6, 3e6, 3e6, 6e6]", "learning.batch_size=16")
    described = described_s(given, 0, 6e9)
    assert described == pytest.approx([0.008] * 5 + [0.016])
    words = "a local step takes 0.008 to 0.016 s of a whole core, as the scenario says"
    assert pace_words(described, described) == words
    assert pace_words(described, 1.005 * described) == words
    assert pace_words(np.full(6, 0.012), np.full(6, 0.008)) == (
        "a local step takes 0.012 s of a whole core: 1.5 times what the scenario says, which the"
        " coordinator will learn"
    )
    slower = np.maximum(described, 0.012)
    assert pace_words(slower, described).endswith(
        "says of device-0, which the coordinator will learn"
    )


def prepared(folder, scenario):
    """The folder of a testbed, before its first start."""
    (folder / "data").mkdir()
    split(folder / "data", scenario)
    (folder / "scenario.toml").write_text(scenario_text(scenario, anywhere=True))
    return folder


def test_steps_are_timed_once_on_devices_of_several_edge_servers(tmp_path):
    folder = prepared(tmp_path, six("learning.model=small-cnn"))
    found = pace_of(folder, [1, 4], 0, allow_code=False)
    kept = json.loads((folder / "pace.json").read_text())
    assert found == kept["core_step_s"] == core_step_s(kept["pieces_s"])
    assert len(kept["pieces_s"]) > 1
    kept["core_step_s"] = 0.25
    (folder / "pace.json").write_text(json.dumps(kept))
    assert pace_of(folder, [1, 4], 0, allow_code=False) == 0.25


def test_what_a_users_model_prints_is_no_answer(tmp_path):
    folder = prepared(tmp_path, six("learning.model=loud:Model"))
    (folder / "loud.py").write_text(LOUD)
    assert pace_of(folder, [0], 0, allow_code=True) > 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"core_step_s": "x"}', '{"core_step_s": -1}'])
def test_a_damaged_file_is_one_line(tmp_path, text):
    (tmp_path / "pace.json").write_text(text)
    with pytest.raises(InputError, match=r"pace\.json: does not say what a local step takes"):
        pace_of(tmp_path, [0], 0, allow_code=False)


def test_what_keeps_a_device_from_training_is_said_in_one_line(tmp_path):
    folder = prepared(tmp_path, six())  # its model is code of the test's own
    for words in ("is code to be run", r"device-1\.npz"):
        with pytest.raises(InputError, match=words) as caught:
            pace_of(folder, [1], 0, allow_code=False)
        assert len(caught.value.lines) == 1
        assert not (folder / "pace.json").exists()
        (folder / "data" / "device-1.npz").unlink(missing_ok=True)
