"""Errors of predictions, from the tables of a run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedrt.errors import InputError
from fedrt.testbed.prediction import Error, predictions_of


def test_errors_are_parts_of_what_was_measured():
    found = Error.of(np.array([1.0, 3.0, 5.0]), np.array([2.0, 2.0, 0.0]))
    assert found == Error(2, 0.5, 0.5, 0.5, 0.0)
    assert Error.of(np.zeros(1), np.zeros(1)).words == "nothing was predicted"


def test_the_95th_percentile_is_near_the_greatest_of_many():
    """Errors of 1 to 20 %, every other prediction too short.

    0.95 of the way from the first to the last is place 18.05: 19.05 %. The mean is 10.5 %; those
    too long, 2 to 20 %, add up to 1.10, those too short to 1.00: a bias of 0.1 / 20.
    """
    size = np.arange(1, 21) / 100
    sign = np.where(np.arange(20) % 2 == 0, -1, 1)
    error = Error.of(4 * (1 + sign * size), np.full(20, 4.0))
    assert error == Error(*(pytest.approx(x) for x in (20, 0.105, 0.1905, 0.2, 0.005)))
    words = Error(20, 0.1, 0.19, 0.2, 0.0).words
    assert words == "mean 10.0%, 95th percentile 19.0%, most 20.0%"


def write_run(folder, rounds=8):
    """Two edge servers with a device each; from round 5 on predictions are a tenth too long."""
    t = np.arange(rounds)
    wrong = np.where(t < 5, 2.0, 1.1)
    clock = np.full(rounds, 4.0)
    tables = {
        "rounds": {"global_round": t, "clock_s": clock, "planned_clock_s": clock * wrong},
        "edges": {
            "global_round": np.repeat(t, 2),
            "edge_round": np.zeros(2 * rounds, dtype=int),
            "edge": np.tile([0, 1], rounds),
            "compute_s": np.tile([1.0, 2.0], rounds),
            "upload_s": np.tile([1.0, 0.5], rounds),
            "backhaul_s": np.tile([0.9, 1.3], rounds),
            "planned_edge_time_s": np.repeat(2.0 * wrong + 0.5 + 0.16, 2),
            "planned_backhaul_s": np.tile([0.9, 1.3], rounds) * np.repeat(wrong, 2),
            "enforce_s": np.tile([0.01, 0.02], rounds),
        },
        "devices": {
            "global_round": np.repeat(t, 2),
            "edge_round": np.zeros(2 * rounds, dtype=int),
            "upload_bytes": np.tile([100, 100], rounds),
            "compute_s": np.tile([1.0, 2.0], rounds),
            "planned_compute_s": np.tile([1.0, 2.0], rounds) * np.repeat(wrong, 2),
            "upload_s": np.tile([1.0, 0.5], rounds),
            "planned_upload_s": np.tile([1.0, 0.5], rounds),
        },
    }
    for name, columns in tables.items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_what_was_learned_counts_after_five_rounds(tmp_path):
    write_run(tmp_path)
    found = predictions_of(tmp_path)
    assert found.clock_s == pytest.approx(32.0)
    assert found.first.mean == pytest.approx(1.0)
    assert found.learning.count == 5
    assert found.learned == Error(*(pytest.approx(x) for x in (3, 0.1, 0.1, 0.1, 0.1)))
    assert found.training.mean == pytest.approx(0.1)
    assert found.uploads.mean == pytest.approx(0.0)
    # The slowest device takes 2.5 s, the slowest gossip 1.3: 3.8 of 4 seconds.
    assert found.overhead == pytest.approx(0.05)
    # Of the 0.2 s left, 0.16 are overheads in the plan.
    assert found.unknown == pytest.approx(0.01)
    # Predictions of 4.4 s had 0.11 beyond 2.86 and 1.43 of the plan, and there were 0.04.
    assert found.unpredicted == pytest.approx(0.07 / 4)
    assert found.applied_s == (pytest.approx(0.015), pytest.approx(0.02))
    assert any("after 5 rounds: mean 10.0%" in line for line in found.lines)


def test_a_short_run_has_predictions_too(tmp_path):
    write_run(tmp_path, rounds=2)
    found = predictions_of(tmp_path)
    assert found.learned.count == 0
    assert found.training.count == 4


def test_a_simulated_run_has_none(tmp_path):
    with pytest.raises(InputError, match="has no predictions and measurements"):
        predictions_of(tmp_path)
