"""Whatever an executor writes is read back, in both forms that the file of a record may have."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from support.failing import EVERYTHING
from support.laws import EVERY_LAW
from support.recorded import check_read_back, rounds_of
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.policies import SHIPPED, make_policy
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.compact import COMPACT, HEAD, compact
from fedrt.records.records import BadRecordError, RunSize, packed, unpacked

SIZE = RunSize(7, 3, 2)


WORLDS = {
    "plain": (),
    "one edge round": ("rounds.edge_rounds=1",),
    "things fail": (*EVERYTHING, "rounds.global_rounds=6"),
    "every law": EVERY_LAW,
    "coded": ("learning.gossip=int4", "learning.upload=int8"),
    "some take part, links missing": ("learning.participation=0.5", "base_graph.kind=ring"),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("policy", SHIPPED)
def test_every_policys_rounds_are_read_back(policy, world, tmp_path):
    checkpoints, rounds = (
        Checkpoints(tmp_path),
        rounds_of(tiny(*WORLDS[world]), make_policy(policy)),
    )
    for done in rounds:
        checkpoints.save_record(done.last.t, done.edge_rounds)
    size = SIZE._replace(edge_rounds=len(rounds[0].edge_rounds))
    check_read_back(tmp_path, size, [done.edge_rounds for done in rounds])


def test_a_record_of_few_devices_is_small_and_one_of_many_is_not_compressed(tmp_path, monkeypatch):
    checkpoints, (done, *_) = Checkpoints(tmp_path), rounds_of(tiny(), make_policy("fedrt"))
    path = tmp_path / "records" / "000000.npz"
    checkpoints.save_record(0, done.edge_rounds)
    assert path.stat().st_size < 3000
    monkeypatch.setattr("fedrt.records.compact.MOST_BYTES", 1000)
    checkpoints.save_record(0, done.edge_rounds)
    with np.load(path) as arrays:
        assert set(arrays) == set(packed(done.edge_rounds))
    check_read_back(tmp_path, SIZE, [done.edge_rounds])


DAMAGED = {
    "other bytes": lambda raw: b"nothing",
    "cut short": lambda raw: raw[:-9],
    "no head": lambda raw: zlib.compress(b"{}"),
    "a list": lambda raw: zlib.compress(HEAD.pack(2) + b"[]"),
    "objects": lambda raw: zlib.compress(HEAD.pack(18) + b'{"a":["|O",[1]]}  ' + bytes(8)),
    "too few numbers": lambda raw: zlib.compress(HEAD.pack(17) + b'{"a":["<f8",[9]]}' + bytes(8)),
    "too many numbers": lambda raw: zlib.compress(HEAD.pack(17) + b'{"a":["<f8",[1]]}' + bytes(9)),
    "endless": lambda raw: zlib.compress(bytes(2**24)),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_compact_record_is_one_line(damage, tmp_path):
    arrays = compact(packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds))
    raw = DAMAGED[damage](arrays[COMPACT].tobytes())
    path = tmp_path / "records" / "000000.npz"
    path.parent.mkdir()
    np.savez(path, allow_pickle=False, **{COMPACT: np.frombuffer(raw, dtype=np.uint8)})
    with pytest.raises(InputError) as caught:
        Checkpoints(tmp_path).load_records(1, SIZE)
    (line,) = caught.value.lines
    assert line.startswith(f"{path}: cannot be read: is not the record of a round of this run: ")


def unknown_pairs(arrays):
    """The record of real devices in which a pair of servers was not compared."""
    compared = ~np.eye(3, dtype=bool)
    compared[0, 2] = compared[2, 0] = False
    true = np.where(compared, 0.5, np.nan)
    np.fill_diagonal(true, 0.0)
    return arrays | {"0.distances.true": true, "0.distances.compared": compared}


def test_distances_that_nobody_measured_come_back_and_no_others():
    arrays = unknown_pairs(packed(rounds_of(tiny(), make_policy("fedrt"))[0].edge_rounds))
    found = unpacked(arrays, SIZE, 0)[0].outcome.distances
    np.testing.assert_array_equal(found.true, arrays["0.distances.true"])
    np.testing.assert_array_equal(found.compared, arrays["0.distances.compared"])
    for place, value in (((0, 1), np.nan), ((1, 2), np.inf), ((0, 2), np.inf), ((1, 1), np.nan)):
        wrong = arrays["0.distances.true"].copy()
        wrong[place] = value
        with pytest.raises(BadRecordError, match=r"its distances\.true is not finite"):
            unpacked(arrays | {"0.distances.true": wrong}, SIZE, 0)
    del arrays["0.distances.compared"]  # then all are known
    with pytest.raises(BadRecordError, match=r"its distances\.true is not finite"):
        unpacked(arrays, SIZE, 0)
