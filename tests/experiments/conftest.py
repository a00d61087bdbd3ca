"""Cells that are trained once for the tests of a folder."""

from __future__ import annotations

import pytest
from support.kept_cells import OPTIONS, TINY, quiet

from fedrt.experiments.carry_out import Store, carry_out
from fedrt.experiments.cells import cells_of
from fedrt.experiments.paper import METHODS


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("cells"))
    cells = cells_of([TINY], METHODS, [0])
    return store, cells, carry_out(cells, store, OPTIONS, note=quiet)
