"""Cells are trained once, stop and go on, and what is kept of them gives everything back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from kept_cells import OPTIONS, TINY
from numpy.testing import assert_allclose, assert_array_equal
from trained import train

from fedrt.errors import InputError
from fedrt.experiments import carry_out as module
from fedrt.experiments.carry_out import Store, carry_out, look_up
from fedrt.experiments.cells import Cell, cells_of
from fedrt.experiments.kept import LEARNED, PLANNED, keep_run, read_kept, replay, same_training
from fedrt.experiments.paper import METHODS
from fedrt.runs.loop import make_world


def quiet(line):
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("cells"))
    cells = cells_of([TINY], METHODS, [0])
    return store, cells, carry_out(cells, store, OPTIONS, note=quiet)


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


def test_equal_training_is_done_once(whole):
    """CE-FedAvg mixes like Static-T, so its models are the same; MLL-SGD takes other steps."""
    _, _, found = whole
    twins = {name: kept.about.get("trained_as") for name, kept in found.items()}
    assert twins["tiny/ce-fedavg-0"] == "tiny/static-t-0"
    assert twins["tiny/fedrt-0"] is twins["tiny/static-t-0"] is twins["tiny/mll-sgd-0"] is None
    assert found["tiny/ce-fedavg-0"].time_s > found["tiny/static-t-0"].time_s


@pytest.mark.parametrize("policy", METHODS)
def test_a_cell_is_what_a_run_by_itself_gives(whole, policy, tmp_path):
    _, _, found = whole
    run = train(tmp_path / "run", TINY.load(), policy)
    alone, cell = keep_run(Cell(TINY, policy, 0), run, {}), found[f"tiny/{policy}-0"]
    for name in (*PLANNED, "loss", "accuracy", "consensus"):
        assert_array_equal(cell.rounds[name], alone.rounds[name])
    assert_array_equal(cell.keys, alone.keys)


def test_other_training_is_no_twin(whole):
    _, _, found = whole
    kept = [found["tiny/static-t-0"]]
    assert same_training(Cell(TINY, "ce-fedavg", 0), kept) is not None
    assert same_training(Cell(TINY, "mll-sgd", 0), kept) is None
    assert same_training(Cell(TINY, "fedrt", 0), kept) is None
    assert same_training(Cell(TINY, "ce-fedavg", 1), kept) is None
    other = replace(TINY, settings=(*TINY.settings, "learning.learning_rate=0.06"))
    assert same_training(Cell(other, "ce-fedavg", 0), kept) is None


@pytest.mark.parametrize("there", ["static-t", "ce-fedavg"])
def test_a_twin_is_found_whichever_was_trained(whole, there, tmp_path, monkeypatch):
    _, cells, found = whole
    monkeypatch.setattr(module, "carry_on", None)
    store, lines = Store(tmp_path), []
    store.write(Cell(TINY, there, 0), found[f"tiny/{there}-0"])
    known = look_up(cells, store, lines.append)
    assert sorted(known) == ["tiny/ce-fedavg-0", "tiny/static-t-0"]
    assert len(lines) == 1
    for name, kept in known.items():
        assert_array_equal(kept.rounds["ends_at_s"], found[name].rounds["ends_at_s"])
        assert_array_equal(kept.rounds["energy_j_mean"], found[name].rounds["energy_j_mean"])
    assert look_up(cells, store, lines.append).keys() == known.keys()
    assert len(lines) == 1


def test_a_policy_that_is_gone_is_shown_from_its_cell_but_not_looked_for(whole, tmp_path):
    _, _, found = whole
    cell, store = Cell(TINY, "gone:Policy", 0), Store(tmp_path)
    with pytest.raises(InputError, match="gone"):
        look_up([cell], store, quiet)
    about = found["tiny/fedrt-0"].about | {"cell": cell.name, "policy": cell.policy}
    store.write(cell, replace(found["tiny/fedrt-0"], about=about))
    assert list(look_up([cell], store, quiet)) == [cell.name]


def test_nothing_is_trained_twice(whole, monkeypatch):
    store, cells, found = whole
    monkeypatch.setattr(module, "carry_on", None)
    again = carry_out(cells, store, OPTIONS, note=quiet)
    assert {name: k.time_s for name, k in again.items()} == {n: k.time_s for n, k in found.items()}


def test_a_stopped_cell_goes_on_where_it_was(whole, tmp_path):
    _, cells, found = whole
    seen = []

    @contextmanager
    def stop_after_three(cell, rounds):
        def count(done):
            seen.append(done.last.t)
            if len(seen) == 3:
                raise KeyboardInterrupt

        yield count

    store, lines = Store(tmp_path), []
    with pytest.raises(KeyboardInterrupt):
        carry_out(cells[:1], store, OPTIONS, note=quiet, show=stop_after_three)
    assert not store.cells.exists()
    kept = carry_out(cells[:1], store, OPTIONS, note=lines.append)["tiny/fedrt-0"]
    assert "tiny/fedrt-0: going on after global round 1" in lines
    for name in (*PLANNED, "loss", "accuracy", "consensus"):
        assert_array_equal(kept.rounds[name], found["tiny/fedrt-0"].rounds[name])
    assert_array_equal(kept.keys, found["tiny/fedrt-0"].keys)


def test_a_run_that_ended_before_it_was_kept_is_kept_then(whole, tmp_path, monkeypatch):
    _, cells, found = whole
    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "keep_run", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            carry_out(cells[:1], store, OPTIONS, note=quiet)
    kept = carry_out(cells[:1], store, OPTIONS, note=quiet)["tiny/fedrt-0"]
    assert_array_equal(kept.rounds["accuracy"], found["tiny/fedrt-0"].rounds["accuracy"])


def test_cells_of_other_settings_are_refused(whole):
    store, _, _ = whole
    other = replace(TINY, settings=(*TINY.settings, "control.kappa=1.0"))
    with pytest.raises(InputError, match="trained under other settings"):
        carry_out([Cell(other, "fedrt", 0)], store, OPTIONS, note=quiet)


def test_a_setting_that_came_later_does_not_make_a_cell_foreign(whole, tmp_path):
    """What an older file does not name has its default."""
    _, cells, found = whole
    kept = found[cells[0].name]
    text = "".join(
        line
        for line in kept.about["scenario"].splitlines(keepends=True)
        if "evaluate_every" not in line
    )
    assert text != kept.about["scenario"]
    usual = replace(TINY, settings=(*TINY.settings, "learning.evaluate_every=5"))
    older = Store(tmp_path)
    older.write(cells[0], replace(kept, about=kept.about | {"scenario": text}))
    assert older.read(Cell(usual, "fedrt", 0)) is not None
    with pytest.raises(InputError, match="other settings"):
        older.read(cells[0])


def test_own_policies_have_cells_too(tmp_path):
    cell = Cell(TINY, "trained:Moody", 0)
    found = carry_out([cell], Store(tmp_path), OPTIONS, note=quiet)
    assert found["tiny/trained.Moody-0"].about["policy"] == "trained:Moody"
    assert (tmp_path / "cells" / "tiny" / "trained.Moody-0.npz").is_file()


def test_an_unknown_policy_is_named_before_anything_is_trained(tmp_path):
    cells = [Cell(TINY, "fedrt", 0), Cell(TINY, "fastest", 0)]
    with pytest.raises(InputError, match="fastest"):
        carry_out(cells, Store(tmp_path), OPTIONS, note=quiet)
    assert not any(tmp_path.iterdir())


def test_merging_takes_what_is_lacking(whole, tmp_path):
    store, cells, found = whole
    mine = Store(tmp_path)
    first = cells[0]
    marked = found[first.name].about | {"command": "mine"}
    mine.write(first, replace(found[first.name], about=marked))
    taken = mine.merge(store.cells.parent)
    assert sorted(taken) == sorted(cell.name for cell in cells[1:])
    assert read_kept(mine.path(first)).about["command"] == "mine"
    assert mine.merge(store.cells.parent) == []


def test_merging_refuses_what_is_not_a_cell(whole, tmp_path):
    store, cells, _ = whole
    with pytest.raises(InputError, match="has no folder cells"):
        Store(tmp_path).merge(tmp_path / "nowhere")
    other = tmp_path / "other" / "cells" / "tiny"
    other.mkdir(parents=True)
    data = store.path(cells[0]).read_bytes()
    (other / "static-t-0.npz").write_bytes(data)
    with pytest.raises(InputError, match="says that it is tiny/fedrt-0"):
        Store(tmp_path / "mine").merge(tmp_path / "other")
    (other / "static-t-0.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"static-t-0\.npz: cannot be read"):
        Store(tmp_path / "mine").merge(tmp_path / "other")


def test_half_the_digits_of_distances_are_kept_where_they_are_enough(whole):
    _, _, found = whole
    distance = found["tiny/fedrt-0"].distance
    assert distance.any()
    assert_array_equal(distance, distance.astype(np.float32))
