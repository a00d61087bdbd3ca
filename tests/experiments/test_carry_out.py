"""Cells are trained once, stop and go on, are merged, and no training is lost."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from support.kept_cells import OPTIONS, TINY, quiet
from support.trained import train

from fedrt.errors import InputError
from fedrt.experiments import carry_out as module
from fedrt.experiments.carry_out import Store, carry_out, look_up, take_over
from fedrt.experiments.cells import Cell
from fedrt.experiments.kept import PLANNED, keep_run, read_kept, same_training
from fedrt.experiments.paper import METHODS
from fedrt.records.directory import RunDirectory


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
    store.write(found[f"tiny/{there}-0"])
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
    store.write(replace(found["tiny/fedrt-0"], about=about))
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
    assert "tiny/fedrt-0: going on after global round 2" in lines
    # The rounds before the stop count too.
    assert kept.about["train_wall_s"] == pytest.approx(kept.rounds["wall_s"].sum())
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
    older.write(replace(kept, about=kept.about | {"scenario": text}))
    assert older.read(Cell(usual, "fedrt", 0)) is not None
    with pytest.raises(InputError, match="other settings"):
        older.read(cells[0])


def test_own_policies_have_cells_too(tmp_path):
    cell = Cell(TINY, "support.trained:Moody", 0)
    found = carry_out([cell], Store(tmp_path), OPTIONS, note=quiet)
    assert found["tiny/support.trained.Moody-0"].about["policy"] == "support.trained:Moody"
    assert (tmp_path / "cells" / "tiny" / "support.trained.Moody-0.npz").is_file()


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
    mine.write(replace(found[first.name], about=marked))
    lines = []
    take_over([store.cells.parent, store.cells.parent], cells, mine, lines.append)
    assert [line.split()[1] for line in lines] == ["4", "0"]
    assert all(mine.path(cell).is_file() for cell in cells)
    assert read_kept(mine.path(first)).about["command"] == "mine"


def test_merging_refuses_what_is_not_a_cell(whole, tmp_path):
    store, cells, _ = whole
    with pytest.raises(InputError, match="has no folder cells"):
        take_over([tmp_path / "nowhere"], [], Store(tmp_path), quiet)
    with pytest.raises(InputError, match=r"`merge` x.*: cannot be read: File name too long"):
        take_over([Path("x" * 300)], [], Store(tmp_path), quiet)
    other = tmp_path / "other" / "cells" / "tiny"
    other.mkdir(parents=True)
    data = store.path(cells[0]).read_bytes()
    (other / "static-t-0.npz").write_bytes(data)
    with pytest.raises(InputError, match="says that it is tiny/fedrt-0"):
        take_over([tmp_path / "other"], cells, Store(tmp_path / "mine"), quiet)
    (other / "static-t-0.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"static-t-0\.npz: cannot be read"):
        take_over([tmp_path / "other"], cells, Store(tmp_path / "mine"), quiet)


def test_a_merge_is_whole_or_not_at_all(whole, tmp_path):
    """One cell of theirs is damaged, then of other settings, then the place is a file."""
    store, cells, found = whole
    theirs, mine = Store(tmp_path / "theirs"), Store(tmp_path / "mine")
    for kept in found.values():
        theirs.write(kept)
    last = theirs.path(cells[1])
    last.write_bytes(b"junk")
    text = found[cells[2].name].about["scenario"].replace("kappa = ", "kappa = 0.0 # ")
    about = found[cells[2].name].about | {"scenario": text}
    theirs.write(replace(found[cells[2].name], about=about))
    with pytest.raises(InputError) as caught:
        take_over([tmp_path / "theirs"], cells, mine, quiet)
    assert sorted(line.partition(": ")[0] for line in caught.value.lines) == sorted(
        map(str, (theirs.path(cells[1]), theirs.path(cells[2])))
    )
    last.unlink()
    with pytest.raises(InputError, match="other settings"):
        take_over([tmp_path / "theirs"], cells, mine, quiet)
    assert not (tmp_path / "mine").exists()
    # Nobody asks for that column: its settings are its own affair.
    take_over([tmp_path / "theirs"], [], mine, quiet)
    assert len(list(mine.cells.rglob("*.npz"))) == len(cells) - 1
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be written: Not a directory"):
        take_over([store.cells.parent], cells, Store(tmp_path / "file"), quiet)


def test_policies_are_checked_before_a_merge_writes(whole, tmp_path):
    store, cells, _ = whole
    with pytest.raises(InputError, match="fastest"):
        take_over([store.cells.parent], [*cells, Cell(TINY, "fastest", 0)], Store(tmp_path), quiet)
    assert not any(tmp_path.iterdir())


def test_a_training_outlives_what_goes_wrong_after_it(whole, tmp_path, monkeypatch):
    """The cell cannot be written at first: the run is still there and is kept the next time."""
    _, cells, found = whole
    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_kept", lambda *a: (_ for _ in ()).throw(InputError("full")))
        with pytest.raises(InputError, match="full"):
            carry_out(cells[:1], store, OPTIONS, note=quiet)
    assert (store.run(cells[0]) / "summary.json").is_file()
    kept = carry_out(cells[:1], store, OPTIONS, note=quiet)["tiny/fedrt-0"]
    assert_array_equal(kept.rounds["accuracy"], found["tiny/fedrt-0"].rounds["accuracy"])
    assert not store.run(cells[0]).exists()


def test_what_is_left_of_a_run_blocks_nothing(whole, tmp_path, monkeypatch):
    _, cells, _ = whole
    store = Store(tmp_path)
    run = store.run(cells[0])
    # Half removed, of a cell that is not kept.
    (run / "checkpoints").mkdir(parents=True)
    carry_out(cells[:1], store, OPTIONS, note=quiet)
    assert not run.exists()
    # Beside a kept cell.
    monkeypatch.setattr(module, "carry_on", None)
    for names in ([], ["run.json", "config.toml"]):
        run.mkdir(parents=True)
        for name in names:
            (run / name).write_text("junk")
        carry_out(cells[:1], store, OPTIONS, note=quiet)
        assert not run.exists()


def test_a_run_that_another_process_is_at_stays(whole, tmp_path):
    _, cells, found = whole
    store, lines = Store(tmp_path), []
    store.write(found[cells[0].name])
    run = store.run(cells[0])
    run.mkdir(parents=True)
    with RunDirectory(run).locked():
        carry_out(cells[:1], store, OPTIONS, note=lines.append)
    assert lines == [f"{run}: another process is at this run"]
    assert run.exists()


def test_a_place_that_cannot_be_written_is_found_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "carry_on", None)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "tiny").write_text("")
    with pytest.raises(InputError, match="tiny: cannot be written: Not a directory"):
        carry_out([Cell(TINY, "fedrt", 0)], Store(tmp_path), OPTIONS, note=quiet)
    assert not (tmp_path / "runs").exists()


def test_a_cell_that_another_process_has_kept_since_is_taken(whole, tmp_path, monkeypatch):
    _, cells, found = whole
    pair, store = [cells[0], cells[-1]], Store(tmp_path)

    def train(cell, *rest):
        assert cell == pair[0]
        store.write(found[pair[1].name])
        return found[cell.name]

    monkeypatch.setattr(module, "_train", train)
    assert carry_out(pair, store, OPTIONS, note=quiet).keys() == {cell.name for cell in pair}
