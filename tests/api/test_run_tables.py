"""One table of several runs: theirs one after the other, with policy and seed in front."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedrt.api.results import RunsResult
from fedrt.errors import InputError


def test_rows_of_all_runs_are_numbered_through(tmp_path):
    each = []
    for seed in (3, 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        parquet.write_table(
            pa.table({"time_s": [1.0 * seed, 2.0 * seed]}), folder / "rounds.parquet"
        )
        each.append(("fedrt:x=1", seed, folder))
    result = SimpleNamespace(_each=each, labels={"fedrt:x=1": "fedrt x=1"})
    table = RunsResult._table(result, "rounds")
    assert list(table.columns) == ["policy", "seed", "time_s"]
    assert table.index.tolist() == [0, 1, 2, 3]
    assert table.policy.unique().tolist() == ["fedrt x=1"]
    assert table.seed.tolist() == [3, 3, 4, 4]
    assert table.time_s.tolist() == [3.0, 6.0, 4.0, 8.0]
    with pytest.raises(InputError, match="has no table of devices; `device_rows` asks for devices"):
        RunsResult._table(result, "devices")
