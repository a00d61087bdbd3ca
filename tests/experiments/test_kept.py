"""Kept cells: what is read back, and one line that names the file for every damage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.kept_cells import OPTIONS, TINY, quiet

from fedrt.errors import InputError
from fedrt.experiments.carry_out import Store, carry_out, look_up
from fedrt.experiments.cells import Cell
from fedrt.experiments.kept import LEARNED, PLANNED, read_kept, replay, write_kept
from fedrt.learning.codecs import guard
from fedrt.messages import LADDER
from fedrt.runs.loop import make_world


def test_what_is_kept_gives_times_and_energies_back(whole):
    _, cells, found = whole
    for cell in cells:
        kept = found[cell.name]
        rounds = list(replay(make_world(TINY.load(), cell.seed), cell.policy, kept))
        assert len(rounds) == 5
        assert_allclose([d.ends_at_s for d, _ in rounds], kept.rounds["ends_at_s"], rtol=1e-9)
        spent = [d.last.after.spent_j.mean() for d, _ in rounds]
        assert_allclose(spent, kept.rounds["energy_j_mean"], rtol=1e-9)
        assert_array_equal([key for _, key in rounds], kept.keys)


def test_a_kept_cell_reads_back(whole):
    store, cells, found = whole
    for cell in cells:
        kept, again = found[cell.name], read_kept(store.path(cell))
        assert again.about["format_version"] == 1
        assert again.about | kept.about == again.about
        assert_array_equal(again.distance, kept.distance)
        for name in (*PLANNED, *LEARNED):
            assert_allclose(again.rounds[name], kept.rounds[name], rtol=1e-6)
        for name in (*PLANNED, "accuracy"):
            assert_array_equal(again.rounds[name], kept.rounds[name])
    assert not any(store.runs.rglob("*.npz"))


def damaged(kept):
    """A cell that is wrong in one way each, with words of the complaint."""
    rounds, about = kept.rounds, kept.about
    count = len(kept.distance)

    def changed(**values):
        return replace(kept, rounds=rounds | values)

    def says(**values):
        return replace(kept, about=about | values)

    short = {name: values[:-1] for name, values in rounds.items()}
    yield replace(kept, rounds=short, distance=kept.distance[:-1], keys=kept.keys[:-1]), "4 rounds"
    yield changed(accuracy=np.full(count, np.nan)), "accuracies"
    yield changed(accuracy=100 * rounds["accuracy"]), "accuracies"
    yield changed(accuracy=np.ones((count, 1))), "no whole training"
    yield changed(accuracy=rounds["accuracy"][:-1]), "no whole training"
    yield changed(ends_at_s=np.full(count, np.nan)), "no whole training"
    yield changed(ends_at_s=np.zeros(count)), "no whole training"
    yield changed(ends_at_s=rounds["ends_at_s"][::-1]), "no whole training"
    yield changed(energy_j_mean=np.full(count, np.inf)), "no whole training"
    yield replace(kept, distance=kept.distance[:, :-1]), "the base graph has"
    yield replace(kept, distance=kept.distance[:, 0]), "no whole training"
    yield replace(kept, distance=kept.distance * np.nan), "distances"
    yield replace(kept, keys=kept.keys.astype(np.float64)), "no whole training"
    yield says(train_wall_s="long"), "train_wall_s = 'long'"
    yield says(train_wall_s=None), "train_wall_s = None"
    yield says(scenario=3), "does not say what it is"
    yield says(cell=["tiny"]), "does not say what it is"
    yield says(seed=True), "does not say what it is"
    yield says(cell="tiny/other-0"), "says that it is tiny/other-0"
    yield says(seed=1), "says that it is tiny/fedrt-0, fedrt, seed 1"
    yield says(scenario="a ="), "not TOML"
    yield says(scenario="a = 1"), "its scenario cannot be read: scenario.name: missing"


def test_every_damage_of_a_kept_cell_is_a_line_that_names_the_file(whole, tmp_path):
    _, cells, found = whole
    store, cell = Store(tmp_path), cells[0]
    path = store.path(cell)
    path.parent.mkdir(parents=True)
    for kept, words in damaged(found[cell.name]):
        write_kept(path, kept)
        with pytest.raises(InputError) as caught:
            store.read(cell)
        (line,) = caught.value.lines
        assert line.startswith(f"{path}: ")
        assert words in line
    write_kept(path, found[cell.name])
    assert store.read(cell) is not None


def test_words_for_numbers_are_no_distances(whole, tmp_path):
    """`write_kept` writes none; somebody else might."""
    store, cells, _ = whole
    with np.load(store.path(cells[0])) as archive:
        arrays = dict(archive)
    path = tmp_path / "tiny" / "fedrt-0.npz"
    path.parent.mkdir()
    for name in ("distance", "loss"):
        np.savez(path, **arrays | {name: arrays[name].astype(str)})
        with pytest.raises(InputError, match="holds no whole training"):
            read_kept(path)


def test_all_damaged_cells_are_named_at_once(whole, tmp_path):
    _, cells, found = whole
    store = Store(tmp_path)
    for cell in cells[:3]:
        store.write(found[cell.name])
    for cell in cells[:2]:
        store.path(cell).write_bytes(b"junk")
    with pytest.raises(InputError) as caught:
        look_up(cells, store, quiet)
    assert [line.partition(": ")[0] for line in caught.value.lines] == [
        str(store.path(cell)) for cell in cells[:2]
    ]


def test_half_the_digits_of_distances_are_kept_where_they_are_enough(whole):
    _, _, found = whole
    distance = found["tiny/fedrt-0"].distance
    assert distance.any()
    assert_array_equal(distance, distance.astype(np.float32))


def test_a_cell_whose_codecs_were_stepped_up_is_planned_again_with_the_steps(monkeypatch, tmp_path):
    """With a limit that some messages do not keep, so that the guard has something to do."""
    monkeypatch.setattr(guard, "LIMITS", np.full(len(LADDER), 0.1))
    store, cell = Store(tmp_path), Cell(TINY, "fedrt-joint", 0)
    found = carry_out([cell], store, OPTIONS, note=quiet)[cell.name]
    assert len(found.stepped_up)
    again = read_kept(store.path(cell))
    assert_array_equal(again.stepped_up, found.stepped_up)
    rounds = [done for done, _ in replay(make_world(TINY.load(), 0), cell.policy, again)]
    assert_allclose([done.ends_at_s for done in rounds], again.rounds["ends_at_s"], rtol=1e-9)
    without = replace(again, stepped_up=again.stepped_up[:0])
    other = [done for done, _ in replay(make_world(TINY.load(), 0), cell.policy, without)]
    assert other[-1].ends_at_s != rounds[-1].ends_at_s
    write_kept(store.path(cell), replace(again, stepped_up=again.stepped_up[:, :3]))
    with pytest.raises(InputError, match="steps of codecs"):
        read_kept(store.path(cell))
