"""Policies held against FedRT: by hand, and on trained cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.kept_cells import OPTIONS, TINY

from fedrt.cli import main
from fedrt.experiments import cells as module
from fedrt.experiments.beyond import LATE, CellResults, Pair, pairs
from fedrt.experiments.carry_out import Store, carry_out
from fedrt.experiments.cells import cells_of
from fedrt.experiments.kept import replay
from fedrt.report.reproduction import markdown_beyond
from fedrt.runs.loop import make_world

TIGHT = replace(TINY, settings=(*TINY.settings, "fleet.energy_j_per_edge_round=0.01"))
POLICIES = ("fedrt", "fedrt-plus")


def test_changes_and_points_by_hand():
    fedrt = (CellResults(100, 10, 3, 80, 79, 81), CellResults(200, 10, 1, 82, 81, 83))
    other = (CellResults(90, 8, 0, 80.5, 78, 81), CellResults(160, 9, 1, 81, 82, 83))
    pair = Pair(TINY, "own", (0, 2), fedrt, other)
    assert pair.change("time_s") == pytest.approx(-0.15)
    assert pair.change("energy_j") == pytest.approx(-0.15)
    assert pair.points("final") == (0.5, -1.0)
    (row,) = markdown_beyond([pair]).splitlines()[4:]
    assert row == (
        "| Tiny | own | 0 2 | -15.0% | -10.0%, seed 0 | -15.0% | 0 (2) | +0.50, -1.00 (81.00)"
        " | -1.00, +1.00 (80.00) | +0.00, +0.00 (82.00) |"
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("cells"))
    own = cells_of([TIGHT], POLICIES, [0])
    return store, own, carry_out(own, store, OPTIONS, note=lambda line: None)


def test_over_budget_is_planned_again(trained):
    _, own, found = trained
    (pair,) = pairs([TIGHT], POLICIES, [0, 1], found)
    assert (pair.policy, pair.seeds) == ("fedrt-plus", (0,))
    for cell, (outcome,) in zip(own, (pair.fedrt, pair.other), strict=True):
        kept = found[cell.name]
        world = make_world(TIGHT.load(), cell.seed)
        books = [done.last.after for done, _ in replay(world, cell.policy, kept)][-1]
        over = sum(max(s - b, 0) for s, b in zip(books.spent_j, books.budget_j, strict=True))
        assert outcome.over_j == pytest.approx(over)
        assert over > 0
        assert outcome.time_s == kept.time_s
        measured = [100 * a for a in kept.rounds["accuracy"] if not np.isnan(a)]
        assert (outcome.final, outcome.best) == (measured[-1], max(measured))
        assert outcome.late == pytest.approx(np.mean(measured[-LATE:]))


def test_a_policy_that_is_not_there_is_left_out(trained):
    _, _, found = trained
    assert pairs([TIGHT], ["fedrt", "static-r"], [0], found) == []


def test_the_command_writes_it(trained, monkeypatch, capsys):
    store, _, _ = trained
    monkeypatch.setitem(module.WHAT, "beyond", ((TIGHT,), POLICIES))
    folder = store.cells.parent
    words = ["--no-training", "--seeds", "0", "--dtype", "float32", "--out", str(folder)]
    assert main(["reproduce", "beyond", *words]) == 0
    text = (folder / "beyond.md").read_text()
    assert text in capsys.readouterr().out
    assert "| Tiny | fedrt-plus | 0 |" in text
