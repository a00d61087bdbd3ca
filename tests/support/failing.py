"""Runs in which everything that can fail does, and the check that their books balance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedrt.records.columns.failures import COUNTS

EVERYTHING = (
    "faults.silent={kind='random',probability=0.2}",
    "faults.absent={kind='markov',mean_up=5,mean_down=2}",
    "faults.straggler={kind='random',probability=0.3}",
    "faults.server_down={kind='markov',mean_up=3,mean_down=1.5}",
    "faults.link_down={kind='random',probability=0.3}",
    "faults.cut={kind='markov',mean_up=3,mean_down=2}",
    "faults.deadline_factor=2",
)


def check_books(account, rounds):
    """Energy, time and updates: every number is accounted for once."""
    tables = {name: table.to_pydict() for name, table in account.history.tables().items()}
    columns = {
        name: {key: np.array(values) for key, values in table.items()}
        for name, table in tables.items()
    }
    devices, edges, whole = columns["devices"], columns["edges"], columns["rounds"]
    ledger = rounds[-1].last.after
    # Energy: the ledger is the sum of the devices' rows, device by device.
    paid = np.bincount(
        devices["device"].astype(int), devices["energy_j"], minlength=len(ledger.spent_j)
    )
    assert_allclose(paid, ledger.spent_j, rtol=1e-12)
    lost = devices["energy_j"][devices["outcome"] != "delivered"].sum()
    assert lost == pytest.approx(whole["wasted_j"].sum(), rel=1e-12)
    # Time: for every edge its parts add up to the global round's; rounds add up to the clock.
    parts = edges["compute_s"] + edges["upload_s"] + edges["backhaul_s"] + edges["waiting_s"]
    own = parts.reshape(len(rounds), -1, len(ledger.elapsed_s)).sum(axis=1)
    assert_allclose(own, np.tile(whole["time_s"], (own.shape[1], 1)).T, rtol=1e-9, atol=1e-12)
    assert whole["time_s"].sum() == pytest.approx(ledger.time_s, rel=1e-12)
    assert (edges["lost_s"] >= 0).all()
    assert (edges["lost_s"] <= edges["waiting_s"] + 1e-12).all()
    # Updates: everyone that was to train is counted once, in edges, rounds, devices, summary.
    for table in (edges, whole):
        assert_array_equal(sum(table[name] for name in COUNTS[1:]), table["expected"])
    told = account.summary()["faults"]["updates"]
    for name in COUNTS:
        assert edges[name].sum() == whole[name].sum() == told[name]
    for name in ("delivered", "silent", "late", "refused"):
        assert (devices["outcome"] == name).sum() == told[name]
    down = ~edges["up"]
    assert not (edges["backhaul_s"] + edges["compute_s"] + edges["upload_s"])[down].any()
    return columns
