"""The page of a run of a fleet with device classes, one of them without a budget."""

from __future__ import annotations

import numpy as np
import pytest
from support.page_data import unpack
from support.tiny import tiny

from fedrt.report.page.collect import collect
from fedrt.studies import estimate

CLASSES = (
    'fleet.classes=[{name="phone",share=0.7,energy_budget_j=9,cpu_table={file="FILE"}},'
    '{name="hub",energy_budget_j="none"}]'
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    table = folder / "cpu.csv"
    table.write_text("hz,power_w\n2e9,0.1\n3e9,0.5\n")
    estimate(tiny(CLASSES.replace("FILE", str(table))), ["ce-fedavg"], [0], folder / "run")
    # Another machine, which shows the folder, does not have the table.
    table.unlink()
    return collect([folder / "run"])


def test_every_device_has_its_class(page):
    (run,) = page["runs"]
    devices = run["detail"]["devices"]
    assert devices["class_names"] == ["phone", "hub"]
    assert unpack(devices["class"]).tolist() == [0, 0, 0, 0, 1, 0, 1]
    budget_j = unpack(devices["budget_j"])
    assert np.isinf(budget_j).tolist() == [False] * 4 + [True, False, True]
    assert budget_j[0] == pytest.approx(9)


def test_the_range_of_budgets_leaves_out_those_without(page):
    assert '"budget_j": [9.0, 9.0, 9.0]' in repr(page).replace("'", '"')
