"""Other choices are held against the table over the same seeds."""

from __future__ import annotations

from statistics import mean

import pytest
from support.kept_cells import OPTIONS, TINY, made_up

from fedrt.experiments.carry_out import Store, carry_out
from fedrt.experiments.cells import BY_CLASS, TABLE, UNAUGMENTED, Cell
from fedrt.experiments.choices import plan_choices, trained_otherwise
from fedrt.report.reproduction import markdown_choices


def test_what_is_as_in_the_table_is_its_mean_over_seeds(tmp_path):
    cells = [Cell(TINY, "fedrt", seed) for seed in (0, 1)]
    found = carry_out(cells, Store(tmp_path), OPTIONS, note=lambda line: None)
    planned = plan_choices([TINY], [0, 1, 2], found)["Tiny"]
    usual, slower = planned["as in the table"], planned["kappa = 0"]
    assert usual.time_h == pytest.approx(mean(kept.time_s for kept in found.values()) / 3600)
    assert usual.energy_j == pytest.approx(mean(kept.energy_j for kept in found.values()))
    by_seed = [plan_choices([TINY], [seed], found)["Tiny"]["kappa = 0"] for seed in (0, 1)]
    assert by_seed[0].time_h != by_seed[1].time_h
    assert slower.time_h == pytest.approx(mean(each.time_h for each in by_seed))


def test_accuracies_stand_beside_those_of_the_same_seeds():
    usual = {f"cifar10-iid/fedrt-{s}": made_up("p", 1, 1, [a]) for s, a in enumerate((0.8, 0.9))}
    found = usual | {"cifar10-iid-unaugmented/fedrt-1": made_up("p", 1, 1, [0.7])}
    (each,) = trained_otherwise([*BY_CLASS, UNAUGMENTED], [0, 1, 2], found)
    assert (each.accuracy, each.usual) == ({1: 70.0}, {1: 90.0})
    text = markdown_choices({}, [each])
    assert text.endswith("without crops and mirror images: seed 1: 70.00 (90.00) %\n")
    assert UNAUGMENTED.load().learning.augment is False
    assert next(c for c in TABLE if c.name == "cifar10-iid").load().learning.augment is True
