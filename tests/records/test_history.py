"""The four tables: their columns, and that their rows add up to the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.failing import EVERYTHING
from support.laws import EVERY_LAW
from support.tiny import tiny

from fedrt.policies import POLICIES, make_policy
from fedrt.records.history import ALL_PARTS, History
from fedrt.runs.loop import simulate_rounds
from fedrt.studies.estimates import estimate_run
from fedrt.world.fleet import draw_fleet
from fedrt.world.simulated import SimulatedWorld

# Six servers of uneven size, so that links can go and clusters differ.
SCENARIO = tiny(
    "fleet.num_edges=6",
    "fleet.num_devices=20",
    "fleet.cluster_sizes=[2,5,3,1,5,4]",
    "rounds.global_rounds=6",
)
COLUMNS = {
    "rounds": {
        "global_round": "int64",
        "time_s": "double",
        "ends_at_s": "double",
        "energy_j_mean": "double",
        "energy_j_max": "double",
        "over_budget_devices": "int64",
        "over_budget_j": "double",
        "over_allowance_j": "double",
        "links_kept": "int64",
        "gossip_steps": "int64",
        "upload_bytes": "double",
        "backhaul_bytes": "double",
        "zeta": "double",
        "omega_2": "double",
        "status": "string",
        "left_out": "int64",
    },
    "edges": {
        "global_round": "int64",
        "edge_round": "int64",
        "edge": "int64",
        "bandwidth_hz": "double",
        "compute_s": "double",
        "upload_s": "double",
        "backhaul_s": "double",
        "waiting_s": "double",
    },
    "links": {
        "global_round": "int64",
        "edge": "int64",
        "edge2": "int64",
        "bps": "double",
        "distance": "double",
        "kept": "bool",
        "bytes": "double",
    },
    "devices": {
        "global_round": "int64",
        "edge_round": "int64",
        "device": "int64",
        "edge": "int64",
        "trains": "bool",
        "bandwidth_hz": "double",
        "cpu_hz": "double",
        "local_steps": "int64",
        "compute_s": "double",
        "upload_s": "double",
        "upload_bytes": "double",
        "energy_j": "double",
        "spent_j": "double",
        "left_j": "double",
        "over_allowance_j": "double",
    },
}


def history(world: SimulatedWorld, policy: str):
    """The rounds of a run and its tables as dicts of numpy columns."""
    collected, rounds = History("metropolis"), []
    for done in simulate_rounds(world, make_policy(policy)):
        collected.add(done)
        rounds.append(done)
    tables = collected.tables()
    return rounds, {
        name: {key: table[key].to_numpy() for key in table.column_names}
        for name, table in tables.items()
    }


@pytest.mark.parametrize("edges", [1, 6])
def test_columns_and_types(edges):
    scenario = SCENARIO if edges == 6 else tiny("fleet.num_edges=1", "fleet.cluster_sizes=even")
    collected = History("metropolis")
    for done in simulate_rounds(SimulatedWorld(scenario, 0), make_policy("fedrt")):
        collected.add(done)
    tables = collected.tables()
    found = {name: {f.name: str(f.type) for f in table.schema} for name, table in tables.items()}
    assert found == COLUMNS
    assert all(column.null_count == 0 for table in tables.values() for column in table.columns)
    if edges == 1:
        assert tables["links"].num_rows == 0
        assert tables["rounds"]["zeta"].to_pylist() == [0.0] * 4


@pytest.mark.parametrize("policy", POLICIES)
def test_the_rows_add_up(policy):
    rounds, tables = history(SimulatedWorld(SCENARIO, 0), policy)
    edges, devices, per_round = tables["edges"], tables["devices"], tables["rounds"]
    assert_array_equal(per_round["global_round"], np.arange(6))
    assert len(edges["edge"]) == 6 * 2 * 6
    assert len(devices["device"]) == 6 * 2 * 20
    parts = sum(edges[key] for key in ("compute_s", "upload_s", "backhaul_s", "waiting_s"))
    # [global round, edge round, edge] -> what each edge did with the round adds up to its time.
    whole = parts.reshape(6, 2, 6).sum(axis=1)
    assert_allclose(whole, np.tile(per_round["time_s"][:, None], 6), rtol=1e-9)
    assert_allclose(np.cumsum(per_round["time_s"]), per_round["ends_at_s"], rtol=1e-12)
    waiting, backhaul = (edges[key].reshape(6, 2, 6) for key in ("waiting_s", "backhaul_s"))
    assert_array_equal(waiting[:, 0], np.zeros((6, 6)))
    assert_array_equal(backhaul[:, 0], np.zeros((6, 6)))
    assert_array_equal(waiting[:, 1].min(axis=1), np.zeros(6))  # somebody is the slowest
    ledger = rounds[-1].last.after
    spent = devices["energy_j"].reshape(-1, 20).sum(axis=0)
    assert_allclose(ledger.spent_j, spent, rtol=1e-9)
    assert_array_equal(devices["spent_j"].reshape(-1, 20)[-1], ledger.spent_j)
    assert_array_equal(devices["left_j"].reshape(-1, 20)[-1], ledger.left_j)
    assert_allclose(devices["spent_j"] + devices["left_j"], np.full(240, 12.0), rtol=1e-12)
    over = devices["over_allowance_j"].reshape(6, -1).sum(axis=1)
    assert_allclose(per_round["over_allowance_j"], over, rtol=1e-12)
    sent = devices["upload_bytes"].reshape(6, -1).sum(axis=1)
    assert_allclose(per_round["upload_bytes"], sent, rtol=1e-12)
    assert_allclose(per_round["energy_j_mean"][-1], spent.mean(), rtol=1e-12)
    assert_allclose(per_round["energy_j_max"][-1], spent.max(), rtol=1e-12)


@pytest.mark.parametrize("faults", [(), EVERYTHING])
def test_the_parts_of_a_round_add_up_under_every_law(faults):
    """With downloads and overheads among them; energies too, and nothing is negative."""
    world = SimulatedWorld(tiny(*EVERY_LAW, *faults), 1)
    rounds, tables = history(world, "static-r")
    edges, devices = tables["edges"], tables["devices"]
    parts = np.stack([edges[name] for name in ALL_PARTS])
    assert (parts > -1e-9).all()
    whole = parts.sum(axis=0).reshape(4, 2, 3).sum(axis=1)
    assert_allclose(whole, np.tile(tables["rounds"]["time_s"][:, None], 3), rtol=1e-9)
    for name in ("download_s", "download_j", "idle_j", "tx_power_w"):
        assert devices[name].max() > 0, name
    turns = [turn for done in rounds for turn in done.edge_rounds]
    cost = np.concatenate([turn.cost.compute_j + turn.cost.upload_j for turn in turns])
    more = devices["download_j"] + devices["idle_j"]
    assert_allclose(devices["energy_j"], cost + more, rtol=1e-12)


def test_compute_and_upload_are_those_of_the_devices_that_finish_last():
    rounds, tables = history(SimulatedWorld(SCENARIO, 0), "fedrt")
    for i, turn in enumerate(turn for done in rounds for turn in done.edge_rounds):
        for c in range(6):
            mine = turn.seen.edge_of_device == c
            compute_s, upload_s = turn.cost.compute_s[mine], turn.cost.upload_s[mine]
            device_s = compute_s + upload_s
            last = device_s >= device_s.max() * (1 - 1e-9)
            row = 6 * i + c
            assert_allclose(tables["edges"]["compute_s"][row], compute_s[last].mean(), rtol=1e-12)
            assert_allclose(tables["edges"]["upload_s"][row], upload_s[last].mean(), rtol=1e-12)


@pytest.mark.parametrize("policy", ["fedrt", "static-t"])
def test_links_are_those_of_the_plan(policy):
    rounds, tables = history(SimulatedWorld(SCENARIO, 0), policy)
    links = {key: column.reshape(6, 15) for key, column in tables["links"].items()}
    for t, done in enumerate(rounds):
        ends = links["edge"][t], links["edge2"][t]
        assert_array_equal(np.stack(ends), np.stack(np.triu_indices(6, 1)))
        assert_array_equal(links["kept"][t], done.last.plan.gossip.links[ends])
        assert_array_equal(links["bps"][t], done.last.seen.backhaul.bps[ends])
        assert_array_equal(links["distance"][t], done.last.seen.backhaul.consensus_distance[ends])
    assert_array_equal(tables["rounds"]["links_kept"], links["kept"].sum(axis=1))
    assert links["kept"].all() == (policy == "static-t")


def test_asking_for_tables_on_the_way_changes_nothing():
    often, once = History("metropolis"), History("metropolis")
    for done in simulate_rounds(SimulatedWorld(SCENARIO, 0), make_policy("fedrt")):
        often.add(done)
        once.add(done)
        often.tables()
    for name, table in once.tables().items():
        assert table.equals(often.tables()[name])


def test_what_is_left_out_is_left_out():
    collected = History("metropolis", devices=False, links=False)
    for done in simulate_rounds(SimulatedWorld(SCENARIO, 0), make_policy("fedrt")):
        collected.add(done)
    assert set(collected.tables()) == {"edges", "rounds"}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_summary_is_the_sum_of_the_rows(policy):
    world = SimulatedWorld(SCENARIO, 0)
    summary = estimate_run(world, make_policy(policy))
    _, tables = history(world, policy)
    spent = tables["devices"]["energy_j"].reshape(-1, 20).sum(axis=0)
    assert_allclose(summary["energy_j_mean"], spent.mean(), rtol=1e-9)
    assert_allclose(summary["energy_j_max"], spent.max(), rtol=1e-9)
    assert_allclose(summary["total_time_s"], tables["rounds"]["time_s"].sum(), rtol=1e-12)
    assert summary["over_budget_devices"] == (spent > 12.0 * (1 + 1e-9)).sum()
    assert_allclose(summary["over_budget_j"], np.maximum(spent - 12.0, 0).sum(), rtol=1e-9)
    assert_allclose(sum(summary["time_parts"].values()), summary["total_time_s"], rtol=1e-9)
    for name, total in summary["time_parts"].items():
        assert_allclose(total, tables["edges"][name].sum() / 6, rtol=1e-9)


DEVICE_FIELDS = (
    "device_key",
    "cycles_per_sample",
    "capacitance",
    "tx_power_w",
    "cpu_min_hz",
    "cpu_max_hz",
    "energy_budget_j",
)
# The order of devices is the order in which a cluster's bandwidths are summed and the energies of
# a fleet averaged: that moves the last bits, and rounds pass them on.
RTOL = 1e-12
# Where a plan compares two drafts, the searches over prices of both end within 1e-11
# (`priced_kernel.BANDWIDTH`), and where they end moves with the last bits.
COMPARED = {"fedrt-joint": 1e-10}


def same(mine, other, rtol=RTOL):
    if mine.dtype.kind == "f":
        assert_allclose(mine, other, rtol=rtol, atol=rtol)
    else:
        assert_array_equal(mine, other)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "channel", [(), ('channel={kind="path-loss",snr_at_1m_db=90,fading_db=3}',)]
)
def test_swapping_two_devices_swaps_their_rows_and_nothing_else(policy, channel):
    rtol = COMPARED.get(policy, RTOL)
    scenario = SCENARIO if not channel else replace(SCENARIO, channel=tiny(*channel).channel)
    fleet, order = draw_fleet(scenario, 0), np.arange(20)
    order[[3, 6]] = [6, 3]  # both of cluster 1
    swapped = replace(fleet, **{name: getattr(fleet, name)[order] for name in DEVICE_FIELDS})
    _, plain = history(SimulatedWorld(scenario, 0), policy)
    _, after = history(SimulatedWorld(scenario, 0, swapped), policy)
    for name in ("rounds", "edges", "links"):
        for key in plain[name]:
            same(after[name][key], plain[name][key], rtol)
    for key, column in plain["devices"].items():
        rows = column.reshape(-1, 20)
        same(
            after["devices"][key].reshape(-1, 20), rows if key == "device" else rows[:, order], rtol
        )
    assert np.ptp(plain["devices"]["energy_j"].reshape(-1, 20)[:, [3, 6]], axis=1).min() > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "graph", ['{kind="complete"}', '{kind="ring"}', '{kind="erdos-renyi",probability=0.5}']
)
def test_swapping_two_clusters_swaps_their_rows_and_nothing_else(policy, graph):
    rtol = COMPARED.get(policy, RTOL)
    scenario = replace(SCENARIO, base_graph=tiny(f"base_graph={graph}").base_graph)
    fleet, edges = draw_fleet(scenario, 0), np.array([0, 4, 2, 3, 1, 5])  # 5 devices each
    order = np.concatenate([np.flatnonzero(fleet.edge_of_device == c) for c in edges])
    changes = {name: getattr(fleet, name)[order] for name in DEVICE_FIELDS}
    swapped = replace(fleet, edge_key=fleet.edge_key[edges], **changes)
    _, plain = history(SimulatedWorld(scenario, 0), policy)
    _, after = history(SimulatedWorld(scenario, 0, swapped), policy)
    for key, column in plain["rounds"].items():
        same(after["rounds"][key], column, rtol)
    for key, column in plain["edges"].items():
        rows = column.reshape(-1, 6)
        same(after["edges"][key].reshape(-1, 6), rows if key == "edge" else rows[:, edges], rtol)
    for key, column in plain["devices"].items():
        rows = column.reshape(-1, 20)
        fixed = key in ("device", "edge")
        same(after["devices"][key].reshape(-1, 20), rows if fixed else rows[:, order], rtol)
    for key in ("bps", "distance", "kept"):
        grids = []
        for tables in (plain, after):
            grid = np.zeros((6, 6, 6), dtype=tables["links"][key].dtype)
            t, a, b = (tables["links"][name] for name in ("global_round", "edge", "edge2"))
            grid[t, a, b] = grid[t, b, a] = tables["links"][key]
            grids.append(grid)
        same(grids[1], grids[0][:, edges][:, :, edges], rtol)
