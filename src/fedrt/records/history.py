"""The history of a run as four tables, to which rows are added as the run proceeds.

rounds: one row per global round. edges: per edge and edge round. links: per link and global round.
devices: per device and edge round. docs/runs.md lists the columns.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing.convergence import omega_2
from fedrt.control.mixing.weights import mixing_of, slowest_contraction
from fedrt.cost.backhaul import link_bytes
from fedrt.cost.round import slowest_device_s
from fedrt.graph import links_of
from fedrt.ledger import overspend_j
from fedrt.plan import gossip_bits, upload_codecs
from fedrt.records.columns.failures import arrived, device_columns, edge_columns, round_columns
from fedrt.records.columns.measured import (
    device_measured,
    edge_measured,
    overhead_s,
    round_measured,
)
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.rounds import EdgeRound, GlobalRound
from fedrt.world.fleet import FleetArrays

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DEVICE_ROWS = 1_000
"""The number of devices up to which device rows are saved by default."""
MOST_LINK_ROWS = 5_000

PARTS = ("compute_s", "upload_s", "backhaul_s", "waiting_s")
"""The parts of a global round's time that every run has."""
ALL_PARTS = ("download_s", "compute_s", "upload_s", "overhead_s", "backhaul_s", "waiting_s")
"""Those of any run, in their order; a broadcast and overheads only where the scenario has them."""

Columns = dict[str, Any]


def parts_in(names: Container[str]) -> tuple[str, ...]:
    """The parts of a round that are among some names, in their order, with those of every run."""
    return tuple(part for part in ALL_PARTS if part in PARTS or part in names)


class History:
    """Collects the rows of all tables during a run."""

    def __init__(
        self,
        mixing: str,
        *,
        devices: bool = True,
        links: bool = True,
        fleet: FleetArrays | None = None,
    ) -> None:
        self.mixing, self.fleet = mixing, fleet
        self.kept = {"devices": devices, "links": links, "edges": True, "rounds": True}
        self.chunks: dict[str, list[Columns]] = {name: [] for name in self.kept if self.kept[name]}
        self.last_edge_rows: list[Columns] = []

    def add(self, done: GlobalRound) -> None:
        """Add the rows of one global round."""
        more = round_columns(done) | round_measured(done)
        self.chunks["rounds"].append(round_row(done, self.mixing) | more)
        self.last_edge_rows = [edge_rows(turn, done) for turn in done.edge_rounds]
        self.chunks["edges"] += self.last_edge_rows
        for turn in done.edge_rounds:
            if "devices" in self.chunks:
                rows = device_rows(turn) | codec_columns(turn) | device_columns(turn)
                rows |= device_measured(turn) | class_column(turn, self.fleet)
                self.chunks["devices"].append(rows)
        if "links" in self.chunks:
            self.chunks["links"].append(link_rows(done))

    def tables(self) -> dict[str, pa.Table]:
        """All tables with their rows so far."""
        import pyarrow as pa

        tables = {}
        for name, chunks in self.chunks.items():
            whole = {key: np.concatenate([c[key] for c in chunks]) for key in chunks[0]}
            # One chunk again, so that the next call does not join the old ones anew.
            self.chunks[name] = [whole]
            tables[name] = pa.table(whole)
        return tables


def round_row(done: GlobalRound, mixing: str) -> Columns:
    """The row of one global round: its time, what was spent, and how its links mix."""
    last = done.last
    ledger, gossip = last.after, last.gossip
    zeta = slowest_contraction(mixing_of(gossip, mixing), gossip.links)
    over = ledger.overspent_j
    return {
        "global_round": np.array([last.t]),
        "time_s": np.array([done.time_s]),
        "ends_at_s": np.array([done.ends_at_s]),
        "energy_j_mean": np.array([ledger.spent_j.mean()]),
        "energy_j_max": np.array([ledger.spent_j.max()]),
        "over_budget_devices": np.array([int((over > 0).sum())]),
        "over_budget_j": np.array([over.sum()]),
        "over_allowance_j": np.array([sum(_over(turn).sum() for turn in done.edge_rounds)]),
        "links_kept": np.array([int(gossip.links.sum()) // 2]),
        "gossip_steps": np.array([gossip.steps]),
        "upload_bytes": np.array([sum(t.cost.upload_bytes.sum() for t in done.edge_rounds)]),
        "backhaul_bytes": np.array([sent_bytes(last).sum()]),
        "zeta": np.array([zeta]),
        "omega_2": np.array([omega_2(zeta, gossip.steps)]),
        "status": np.array([last.plan.status]),
        "left_out": np.array([sum(int((~t.plan.trained).sum()) for t in done.edge_rounds)]),
    } | {name: np.array([value]) for name, value in done.metrics.items()}


def sent_bytes(turn: EdgeRound) -> NDArray[np.float64]:
    """The bytes that each edge server sends to each other in the gossip of a global round."""
    gossip, seen = turn.gossip, turn.seen
    return link_bytes(gossip_bits(gossip, seen), gossip.steps, gossip.links)


def edge_rows(turn: EdgeRound, done: GlobalRound) -> Columns:
    """The rows of one edge round, one per edge server, with the times of its slowest device.

    Its parts (`PARTS`) add up to the time of the global round; waiting is for the slowest edge
    server and for devices that failed. On real devices the broadcast and the overhead are measured.
    """
    parts = slowest_device_s(turn.seen, arrived(turn))
    laws, measured = turn.seen.laws, turn.outcome.measured
    slowest_s = np.sum(list(parts.values()), axis=0)
    if laws.listen_s is None and not measured:
        del parts["download_s"]
    if laws.overhead_s > 0:
        delivered = turn.seen.sum_by_edge(turn.outcome.delivered.astype(np.float64)) > 0
        parts["overhead_s"] = np.where(delivered, laws.overhead_s, 0.0)
    waiting_s = np.zeros(turn.seen.num_edges)
    if turn is done.last:
        turns = [each.cost.edge_time_s + each.cost.backhaul_s for each in done.edge_rounds]
        own_s = np.sum(turns, axis=0)
        waiting_s = own_s.max() - own_s
    if turn.outcome.failures is not None:
        waiting_s = waiting_s + turn.outcome.lost_s
    if measured:
        parts["overhead_s"], late_s = overhead_s(turn, slowest_s)
        waiting_s = waiting_s + late_s
    return (
        {
            "global_round": np.full(turn.seen.num_edges, turn.t),
            "edge_round": np.full(turn.seen.num_edges, turn.r),
            "edge": np.arange(turn.seen.num_edges),
            "bandwidth_hz": turn.seen.edge_bandwidth_hz,
            **parts,
            "backhaul_s": turn.cost.backhaul_s,
            "waiting_s": waiting_s,
        }
        | edge_columns(turn)
        | edge_measured(turn)
    )


def link_rows(done: GlobalRound) -> Columns:
    """The rows of one global round, one per link of the base graph.

    Distances are the true ones where models train.
    """
    turn = done.last
    backhaul = turn.backhaul
    rows, cols = links_of(backhaul.base_graph)
    columns: Columns = {
        "global_round": np.full(len(rows), turn.t),
        "edge": rows,
        "edge2": cols,
        "bps": backhaul.bps[rows, cols],
        "distance": backhaul.consensus_distance[rows, cols],
        "kept": turn.gossip.links[rows, cols],
        # In both directions.
        "bytes": 2 * sent_bytes(turn)[rows, cols],
    }
    if done.metrics:
        columns["true_distance"] = done.distances.true[rows, cols]
    return columns


def device_rows(turn: EdgeRound) -> Columns:
    """The rows of one edge round, one per device."""
    seen, plan, trained = turn.seen, turn.plan, turn.plan.trained
    count = seen.num_devices
    return {
        "global_round": np.full(count, turn.t),
        "edge_round": np.full(count, turn.r),
        "device": seen.device,
        "edge": seen.edge_of_device,
        "trains": trained,
        "bandwidth_hz": np.where(trained, plan.bandwidth_hz, 0.0),
        "cpu_hz": np.where(trained, plan.cpu_hz, 0.0),
        "local_steps": np.where(trained, plan.local_steps, 0),
        "compute_s": turn.cost.compute_s,
        "upload_s": turn.cost.upload_s,
        "upload_bytes": turn.cost.upload_bytes,
        "energy_j": turn.cost.energy_j,
        "spent_j": turn.after.spent_j[seen.device],
        "left_j": turn.after.left_j[seen.device],
        "over_allowance_j": _over(turn),
    } | _law_columns(turn)


def _law_columns(turn: EdgeRound) -> Columns:
    """The columns of devices that the paper's physical layer does not have."""
    laws, plan, cost = turn.seen.laws, turn.plan, turn.cost
    columns: Columns = {}
    if laws.power_control:
        power_w = turn.seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
        columns["tx_power_w"] = np.where(plan.trained, power_w, 0.0)
    if laws.listen_s is not None:
        columns |= {"download_s": cost.download_s, "download_j": cost.download_j}
    if laws.idle_power_w is not None:
        columns["idle_j"] = cost.idle_j
    return columns


def codec_columns(turn: EdgeRound) -> Columns:
    """The codec of each device's update and whether it was stepped up after it.

    Only of runs whose policy chooses codecs.
    """
    if turn.seen.menu is None:
        return {}
    steps = turn.outcome.stepped_up
    nobody = np.zeros(turn.seen.num_devices, dtype=bool)
    return {
        "codec": upload_codecs(turn.plan, turn.seen),
        "stepped_up": nobody if steps is None else steps != NOT_STEPPED,
    }


def class_column(turn: EdgeRound, fleet: FleetArrays | None) -> Columns:
    """The class of every device of an edge round; nothing in a fleet without classes."""
    if fleet is None or not fleet.class_names:
        return {}
    return {"class": np.array(fleet.class_names)[fleet.class_of_device[turn.seen.device]]}


def _over(turn: EdgeRound) -> Any:
    """For each device, the joules beyond its allowance; 0 for one that the plan leaves out."""
    over = overspend_j(turn.cost.energy_j, turn.allowance_j)
    return np.where(turn.plan.trained, over, 0.0)
