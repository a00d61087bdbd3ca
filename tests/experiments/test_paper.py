from __future__ import annotations

import pytest

from fedrt.experiments.cells import TABLE, WHAT
from fedrt.experiments.paper import METHODS, QUANTITIES, paper_saving, paper_value
from fedrt.policies import POLICIES


def test_the_savings_the_paper_quotes_follow_from_its_table():
    """Its text says 30.90, 31.14, 36.43, 35.82 and 32.35 %: against MLL-SGD."""
    found = [round(100 * (paper_saving("mll-sgd", column.name) or 0), 2) for column in TABLE]
    assert found == [30.90, 31.14, 36.43, 35.82, 32.36]


def test_every_number_is_there():
    values = [paper_value(m, c.name, q) for m in METHODS for c in TABLE for q in QUANTITIES]
    assert all(value is not None and value > 0 for value in values)
    assert len(values) == 75


def test_what_the_paper_lacks_is_none():
    assert paper_value("fedrt-plus", "cifar10-iid", "time") is None
    assert paper_value("fedrt", "digits", "time") is None
    assert paper_saving("my:own", "cifar10-iid") is None


def test_methods_are_policies():
    assert set(METHODS) <= set(POLICIES)


@pytest.mark.parametrize("name", WHAT)
def test_every_column_loads_under_its_own_name(name):
    columns, _ = WHAT[name]
    scenarios = [column.load() for column in columns]
    assert [scenario.name for scenario in scenarios] == [column.name for column in columns]
    assert len({column.name for column in columns}) == len(columns)
