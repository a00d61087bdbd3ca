"""Damaged checkpoints and records: a run goes back to what is whole, and nothing goes unnoticed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from kill_campaign import differences
from numpy.testing import assert_array_equal
from support.resumed import KilledError, checkpoints_of, resumed, stopped
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.policies.fedrt import FedRT
from fedrt.records.checkpoint import Checkpoints, _read
from fedrt.records.compact import COMPACT, expanded
from fedrt.records.records import packed
from fedrt.runs.loop import simulate_rounds
from fedrt.studies.training import carry_on
from fedrt.system.files import write_arrays
from fedrt.world.simulated import SimulatedWorld


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))


def foreign(path):
    np.savez(path, allow_pickle=False, something=np.zeros(3))


DAMAGES = [truncate, empty, flip, foreign]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_and_the_one_before_it(damage, untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    newest = checkpoints_of(run)[-1]
    damage(newest)
    notes = resumed(run)
    assert len(notes) == 2
    assert notes[0].startswith(f"{newest}: cannot be read: ")
    assert notes[1] == "going on after global round 3"
    assert differences(untouched(), run) == []


def test_all_checkpoints_damaged_starts_over_and_new_ones_count(untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    for path in checkpoints_of(run):
        truncate(path)
    shutil.copytree(run, tmp_path / "again")
    notes = resumed(run)
    assert len(notes) == 3
    assert notes[-1] == "no checkpoint is left: starting over"
    assert differences(untouched(), run) == []
    # Killed once more on the way: what was saved since must not fall to the damaged ones.
    run = tmp_path / "again"

    def step(done):
        if done.last.t == 1:
            raise KilledError

    with pytest.raises(KilledError):
        carry_on(run, step, note=lambda line: None)
    assert [path.stem for path in checkpoints_of(run)] == ["000001", "000002"]
    assert resumed(run) == ["going on after global round 2"]
    assert differences(untouched(), run) == []


def respell(**arrays):
    """The record with other arrays in place of its own."""

    def damage(path):
        np.savez(path, allow_pickle=False, **{**expanded(_read(path)), **arrays})

    return damage


WRONG_RECORDS = [
    respell(**{"1.metrics.names": np.array("{")}),
    respell(**{"1.metrics.names": np.array("7")}),
    respell(**{"1.metrics.names": np.array('[["loss"]]')}),
    respell(**{"1.metrics.values": np.zeros(1)}),
    respell(**{"1.metrics.values": np.array("loss")}),
    respell(**{"0.distances.true": np.zeros((2, 2))}),
    respell(**{"1.backhaul.consensus_distance": np.zeros(3)}),
    respell(**{"0.distances.true": np.float64(1)}),
    respell(**{"0.distances.true": np.array([["a"] * 3] * 3)}),
    respell(**{"0.refused.refused": np.zeros((2, 2), dtype=np.int64)}),
]


@pytest.mark.parametrize("damage", [*DAMAGES, *WRONG_RECORDS, Path.unlink])
@pytest.mark.parametrize("which", [0, 3])
def test_a_damaged_record_goes_back_to_where_it_is_not_needed(damage, which, untouched, tmp_path):
    run = stopped(tmp_path / "run", 4)
    record = run / "records" / f"{which:06}.npz"
    damage(record)
    notes = resumed(run)
    assert notes[0].startswith(f"{record}: cannot be read: ")
    expected = "going on after global round 3" if which == 3 else "starting over"
    assert notes[-1].endswith(expected)
    assert len(notes) == 2
    assert differences(untouched(), run) == []


def one_byte_wrong(path, names, step):
    """Change every `step`-th byte in turn; the part of them that is noticed."""
    raw, whole = path.read_bytes(), _read(path, names)
    noticed = 0
    for i in range(0, len(raw), step):
        torn = bytearray(raw)
        torn[i] ^= (1, 128, 255)[i % 3]
        path.write_bytes(bytes(torn))
        try:
            read = _read(path, names)
        except InputError:
            noticed += 1
        else:  # a date or the like
            assert all(read[name].tobytes() == whole[name].tobytes() for name in names)
    return noticed * step / len(raw)


def test_one_wrong_byte_never_goes_unnoticed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    distance = np.arange(9.0).reshape(3, 3)
    names = ("believed", "true", "names", "values")
    state = dict(zip(names, (distance, distance + 1, np.array("loss"), np.ones(2)), strict=True))
    checkpoints.save(1, state)
    assert one_byte_wrong(checkpoints_of(tmp_path)[0], state.keys(), 1) > 0.7
    (done,) = simulate_rounds(SimulatedWorld(tiny("rounds.global_rounds=1"), 0), FedRT())
    checkpoints.save_record(0, done.edge_rounds)
    record = tmp_path / "records" / "000000.npz"
    assert_array_equal(expanded(_read(record))["0.seen.snr"], done.edge_rounds[0].seen.snr)
    assert one_byte_wrong(record, {COMPACT}, 1) > 0.7
    # The form that records of many devices have, and all had: every 7th byte of the 20,000.
    write_arrays(record, packed(done.edge_rounds))
    assert one_byte_wrong(record, packed(done.edge_rounds).keys(), 7) > 0.7


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run = stopped(tmp_path / "run", 2)
    other = stopped(tmp_path / "other", 2, 'learning.model="small-cnn"')
    shutil.copyfile(other / "checkpoints" / "000002.npz", run / "checkpoints" / "000002.npz")
    with pytest.raises(InputError, match=r"its models are \(3, 6090\), the run needs \(3, 650\)"):
        carry_on(run)
