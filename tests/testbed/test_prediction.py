"""Errors of predictions, from the tables of a run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedrt.errors import InputError
from fedrt.testbed.prediction import Error, known_s, learned_s, overheads_s, predictions_of


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


def change(folder, table, name, change_of):
    """Change a column of a table: `change_of` gets its values and the global rounds."""
    path = folder / f"{table}.parquet"
    columns = {key: value.to_numpy() for key, value in zip(*columns_of(path), strict=True)}
    columns[name] = change_of(columns[name].astype(float), columns["global_round"])
    parquet.write_table(pa.table(columns), path)


def columns_of(path):
    table = parquet.read_table(path)
    return table.column_names, table.columns


def test_the_sixth_global_round_is_the_first_that_counts(tmp_path):
    """Uploads in round 5 were predicted 30 % too long, in 6 and 7 exactly: a mean of 10 %."""
    write_run(tmp_path)
    change(tmp_path, "devices", "planned_upload_s", lambda s, t: np.where(t == 5, 1.3 * s, s))
    change(tmp_path, "edges", "enforce_s", lambda s, t: np.where(t < 5, 1.0, s))
    found = predictions_of(tmp_path)
    assert found.uploads.count == 6
    assert found.uploads.mean == pytest.approx(0.1)
    assert found.applied_s == (pytest.approx(0.015), pytest.approx(0.02))


def test_what_was_not_predicted_does_not_cancel_out(tmp_path):
    """Clocks of 4.2, 3.8 and 4 s: beyond what is known 0.24, -0.16 and 0.04 s, predicted 0.11."""
    write_run(tmp_path)
    wrong_s = {5: 0.2, 6: -0.2}
    change(tmp_path, "rounds", "clock_s", lambda s, t: s + [wrong_s.get(i, 0.0) for i in t])
    found = predictions_of(tmp_path)
    assert found.unpredicted == pytest.approx((0.13 + 0.27 + 0.07) / 12)
    assert found.unknown == pytest.approx((0.24 - 0.16 + 0.04) / 12)


def test_devices_that_sent_nothing_have_no_predictions_of_training_and_uploads(tmp_path):
    write_run(tmp_path)
    change(tmp_path, "devices", "upload_bytes", lambda sent, t: np.where(t == 6, 0.0, sent))
    assert predictions_of(tmp_path).training.count == 4


def test_all_wait_for_the_slowest_in_every_edge_round():
    """Two servers, two edge rounds in global round 3.

    Measured: 1 + 2 = 3 s and 2 s, then 1 s and 2 + 2 = 4 s, then 0.7 s of gossip: 3 + 4 + 0.7.
    Planned: ends of 3.5 s and 4.2 s and 0.6 s of gossip; 9 s were predicted, so 0.7 s learned. The
    slowest devices were to be busy for 3.1 s and 4 s: overheads of 0.4 s and 0.2 s.
    """
    edges = {
        "global_round": np.array([3, 3, 3, 3]),
        "edge_round": np.array([0, 0, 1, 1]),
        "compute_s": np.array([1.0, 1.0, 0.5, 2.0]),
        "upload_s": np.array([2.0, 1.0, 0.5, 2.0]),
        "backhaul_s": np.array([0.0, 0.0, 0.5, 0.7]),
        "planned_edge_time_s": np.array([3.5, 3.0, 1.0, 4.2]),
        "planned_backhaul_s": np.array([0.0, 0.0, 0.6, 0.4]),
    }
    devices = {
        "global_round": np.array([3, 3, 3, 3, 2]),
        "edge_round": np.array([0, 0, 1, 1, 1]),
        "planned_compute_s": np.array([2.0, 1.5, 1.0, 3.0, 9.0]),
        "planned_upload_s": np.array([1.0, 1.6, 1.0, 1.0, 9.0]),
    }
    rounds = np.array([3])
    assert known_s(edges, rounds) == pytest.approx([7.7])
    assert learned_s(edges, rounds, np.array([9.0])) == pytest.approx([0.7])
    assert overheads_s(edges, devices, rounds) == pytest.approx([0.6])
