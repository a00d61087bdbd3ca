"""Real devices that send wrong updates over TLS: they are refused, named and left out."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.parties import six
from support.running import running

from fedrt.errors import DivergedError
from fedrt.learning.remote.device_steps import DeviceSteps

NINE = ("fleet={num_edges=3,num_devices=12,cluster_sizes=[4,4,4]}", "rounds.global_rounds=3")


def bad(monkeypatch, numbers, change):
    """Have devices send something else than what they trained."""
    trained = DeviceSteps.train

    def train(self, *given, **more):
        result, left = trained(self, *given, **more)
        if self.number in numbers:
            result = replace(result, **change(result))
        return result, left

    monkeypatch.setattr(DeviceSteps, "train", train)


def huge(result):
    numbers = np.frombuffer(bytes(result.message), dtype="<f4").copy()
    numbers[:] = 3e38
    return {"message": numbers.tobytes()}


def test_a_bad_device_is_refused_named_and_left_out(tmp_path, monkeypatch, caplog):
    bad(monkeypatch, {1}, huge)
    accuracies, rounds = [], []
    with running(tmp_path, six(*NINE)) as fleet, caplog.at_level(logging.WARNING):
        fleet.start_all()

        def look(done):
            accuracies.append(done.metrics["accuracy"])
            rounds.extend(done.edge_rounds)

        fleet.coordinate(progress=look)
    refused = [turn.outcome.device[turn.outcome.is_refused].tolist() for turn in rounds]
    assert refused == [[1]] * 3 + [[]] * (len(rounds) - 3)
    assert [1 in turn.seen.device for turn in rounds] == [True] * 3 + [False] * (len(rounds) - 3)
    assert all(turn.outcome.delivered.all() for turn in rounds)
    assert "device 1: its update was refused: norm far beyond the others" in caplog.text
    assert np.isfinite(accuracies).all()
    assert accuracies[-1] > 0.15
    table = pq.read_table(tmp_path / "run" / "devices.parquet").to_pylist()
    assert {row["device"] for row in table if row["outcome"] == "refused"} == {1}


def test_a_run_most_of_whose_updates_diverge_ends(tmp_path, monkeypatch):
    bad(monkeypatch, set(range(8)), lambda result: {"message": b"", "largest": np.inf})
    with running(tmp_path, six(*NINE)) as fleet:
        fleet.start_all()
        with pytest.raises(DivergedError, match="16 of 24 updates were refused") as caught:
            fleet.coordinate()
    assert caught.value.exit_code == 4
