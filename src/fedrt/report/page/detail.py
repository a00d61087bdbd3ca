"""The details of one run: clusters, links and devices over rounds, within a size limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.ledger import overspend_j
from fedrt.messages import UPLOADS as SHIPPED
from fedrt.records.history import ALL_PARTS, PARTS, parts_in
from fedrt.report.devices.measured import COLUMNS as MEASURED
from fedrt.report.devices.measured import device_means
from fedrt.report.page.encode import counted, packed
from fedrt.report.page.saved import (
    CODECS,
    DEVICES,
    EDGES,
    LINKS,
    Columns,
    PageRun,
    read_columns,
    whole_numbers,
)
from fedrt.report.page.thin import bins, carried_on, mean_by, some_rounds
from fedrt.scenario import Scenario
from fedrt.scenario.placing import class_of_devices
from fedrt.world.fleet import draw_budgets_j, edge_of_devices

MOST_BINS = 80
"""Columns of a heat map; more cannot be distinguished."""
MOST_STACKED = 300
BYTES_FOR_ROUNDS = 2_800_000
BYTES_FOR_DEVICES = 2_000_000
"""Of all detailed runs together, before base64 makes them a third more."""
LEAST_ROUNDS, LEAST_BINS = 40, 20
MOST_HELD = 200_000
"""Classes times devices up to which a partition goes into the page."""

NO_CODEC = 255
"""In the place of a codec where a device sent nothing."""
UPLOADS = list(SHIPPED)
FEW_BITS_FIRST = tuple(reversed(UPLOADS))
NUMBER_BITS = np.array([codec.bits or np.nan for codec in SHIPPED.values()])
"""The bits of a number under each codec; `top-k`, which sends only some, has none."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class DetailShare:
    """How much data of each run goes into the page."""

    runs: int
    rounds: int
    bins: int


def share(run: PageRun, runs: int) -> DetailShare:
    """How many runs like this one are shown in detail, with how many rounds and bins.

    All of them, unless too little would be left for each.
    """
    fleet = run.said.scenario.fleet
    per_edge = 4 * (len(PARTS) + len(_further_parts(run)))
    per_round = per_edge * fleet.num_edges + 9 * _links_per_round(run)
    per_bin = (17 if run.has("devices", CODECS) else 12) * fleet.num_devices
    shown = int(
        min(
            runs,
            BYTES_FOR_ROUNDS / (per_round * min(run.planned, LEAST_ROUNDS)),
            BYTES_FOR_DEVICES / (per_bin * min(run.planned, LEAST_BINS)),
        )
    )
    shown = max(1, shown)
    return DetailShare(
        runs=shown,
        rounds=max(2, int(BYTES_FOR_ROUNDS / (shown * per_round))),
        bins=max(2, min(MOST_BINS, int(BYTES_FOR_DEVICES / (shown * per_bin)))),
    )


def _links_per_round(run: PageRun) -> float:
    """The rows of the links' table per round; an upper limit if it cannot be read."""
    try:
        rows = run.table("links", ("global_round",))
    except InputError:
        edges = run.said.scenario.fleet.num_edges
        return edges * (edges - 1) / 2
    return len(rows["global_round"]) / run.done if rows else 0.0


def detail_data(run: PageRun, most: DetailShare, problems: list[str]) -> dict[str, Any]:
    """The page's data of a single run; an unreadable table adds a problem."""
    kept = some_rounds(run.done, most.rounds)
    data: dict[str, Any] = {
        "rounds": counted(kept),
        "round_time_s": packed(run.rounds["time_s"][kept], "f8"),
        "ends_at_s": packed(run.rounds["ends_at_s"][kept], "f8"),
        "edges": run.said.scenario.fleet.num_edges,
    }
    for name, table, columns, make in (
        ("clusters", "edges", (*EDGES, *_further_parts(run)), _clusters),
        ("links", "links", LINKS, _links),
        ("devices", "devices", DEVICES, _devices),
        ("codecs", "devices", CODECS, _codecs),
        ("measured", "devices", MEASURED, _measured),
    ):
        if name in ("codecs", "measured") and not run.has(table, columns):
            continue
        try:
            rows = run.table(table, columns)
            if rows is not None:
                data[name] = make(run, rows, kept, most)
        except InputError as error:
            problems += error.lines
    try:
        data["partition"] = partition(run)
    except InputError as error:
        problems += error.lines
    return data


def _further_parts(run: PageRun) -> list[str]:
    """The parts of a round that this run has and not every run does."""
    return [name for name in ALL_PARTS if name not in PARTS and run.has("edges", (name,))]


def _clusters(
    run: PageRun, rows: Columns, kept: NDArray[np.int64], most: DetailShare
) -> dict[str, Any]:
    """The seconds of every cluster's parts in each shown round, in all, and of the slowest."""
    edges, done = run.said.scenario.fleet.num_edges, run.done
    edge = whole_numbers(rows, "edge", edges, run.path / "edges.parquet")
    place = rows["global_round"].astype(np.int64, copy=False) * edges + edge
    names = parts_in(rows)
    parts = np.stack(
        [np.bincount(place, rows[name], minlength=done * edges) for name in names], axis=-1
    ).reshape(done, edges, len(names))
    there = np.bincount(place, minlength=done * edges).reshape(done, edges) > 0
    # The cluster that all others wait for; its parts add up to the round's time.
    last = np.where(there, parts[:, :, names.index("waiting_s")], np.inf).argmin(1)
    bin_of_round, first, final = bins(done, MOST_STACKED)
    stacked = [
        mean_by(bin_of_round, parts[np.arange(done), last, i], len(first))
        for i in range(len(names))
    ]
    named = {} if names == PARTS else {"names": [name.removesuffix("_s") for name in names]}
    return named | {
        "parts": packed(np.where(there[kept, :, None], parts[kept], np.nan)),
        "whole": packed(parts.sum(0), "f8"),
        "last": packed(np.bincount(last, minlength=edges), "i4"),
        "bins": {"first": counted(first), "last": counted(final)},
        "stacked": packed(np.stack(stacked, axis=-1)),
    }


def _links(
    run: PageRun, rows: Columns, kept: NDArray[np.int64], most: DetailShare
) -> dict[str, Any]:
    """The speed, distance and use of every link in the shown rounds; without a row it is down."""
    path, edges = run.path / "links.parquet", run.said.scenario.fleet.num_edges
    ends = [whole_numbers(rows, name, edges, path) for name in ("edge", "edge2")]
    links, link_of_row = np.unique(ends[0] * edges + ends[1], return_inverse=True)
    place = (rows["global_round"].astype(np.int64, copy=False), link_of_row)

    def table(name: str, absent: float) -> FloatArray:
        values = np.full((run.done, len(links)), absent)
        values[place] = rows[name]
        return values[kept]

    return {
        "edge": packed(links // edges, "i4"),
        "edge2": packed(links % edges, "i4"),
        "bps": packed(table("bps", 0.0)),
        "distance": packed(table("distance", np.nan)),
        "kept": packed(table("kept", 0.0), "u1"),
    }


def _classes(scenario: Scenario) -> dict[str, Any]:
    """The class of every device; nothing in a fleet without classes."""
    fleet = scenario.fleet
    if not fleet.classes:
        return {}
    names = [each.name for each in fleet.classes]
    return {"class_names": names, "class": packed(class_of_devices(fleet), "i4")}


def _devices(
    run: PageRun, rows: Columns, kept: NDArray[np.int64], most: DetailShare
) -> dict[str, Any]:
    """Means over bins of rounds, energy left after each bin, and the totals of devices."""
    path, count = run.path / "devices.parquet", run.said.scenario.fleet.num_devices
    device = whole_numbers(rows, "device", count, path)
    bin_of_round, first, last = bins(run.done, most.bins)
    place = bin_of_round[rows["global_round"].astype(np.int64, copy=False)] * count + device
    shape = (len(first), count)
    # A device that never took part has no row: it stands as it was drawn.
    scenario = run.said.scenario
    edge, left_j = edge_of_devices(scenario), draw_budgets_j(scenario, run.said.seed)
    edge[device] = whole_numbers(rows, "edge", scenario.fleet.num_edges, path)
    left, spent_j = np.full(shape, np.nan), np.zeros(count)
    # Rows come in the order of time: of several for one place, the last one stays.
    left.ravel()[place] = rows["left_j"]
    spent_j[device], left_j[device] = rows["spent_j"], rows["left_j"]
    budget_j = spent_j + left_j
    # A device that a plan leaves out of an edge round has no bandwidth in it.
    trains = rows["bandwidth_hz"] > 0
    means = {
        name: mean_by(place[trains], rows[name][trains], len(first) * count)
        for name in ("bandwidth_hz", "cpu_hz")
    }
    if not trains.all():
        means["trains"] = mean_by(place, trains.astype(np.float64), len(first) * count)
    return {
        "edge": packed(edge, "i4"),
        "bins": {"first": counted(first), "last": counted(last)},
        **{name: packed(values) for name, values in means.items()},
        "left_j": packed(carried_on(left)),
        "spent_j": packed(spent_j, "f8"),
        "budget_j": packed(budget_j, "f8"),
        "over": packed(overspend_j(spent_j, budget_j) > 0, "u1"),
        **_classes(scenario),
    }


def _measured(
    run: PageRun, rows: Columns, kept: NDArray[np.int64], most: DetailShare
) -> dict[str, Any]:
    """Predicted and measured seconds, bytes and joules of rounds and of real devices."""
    names = (*("time_s", "clock_s", "energy_j", "upload_bytes"), "expected", "delivered")
    rounds = {
        name: packed(run.rounds[name][kept], "f8")
        for quantity in names
        for name in (quantity, f"planned_{quantity}")
        if name in run.rounds
    }
    count = run.said.scenario.fleet.num_devices
    device = whole_numbers(rows, "device", count, run.path / "devices.parquet")
    devices = device_means(rows, device, count)
    kinds = {"asked": "i4", "arrived": "i4", "metered": "u1"}
    return {
        "rounds": counted(kept),
        **rounds,
        "devices": {name: packed(v, kinds.get(name, "f4")) for name, v in devices.items()},
    }


def _codecs(
    run: PageRun, rows: Columns, kept: NDArray[np.int64], most: DetailShare
) -> dict[str, Any]:
    """The codecs of the updates over bins of rounds and by device, bytes sent, and step-ups."""
    path, count = run.path / "devices.parquet", run.said.scenario.fleet.num_devices
    device = whole_numbers(rows, "device", count, path)
    round_of_row = rows["global_round"].astype(np.int64, copy=False)
    used = rows["codec"] >= 0
    names = [UPLOADS.index(name) for name in FEW_BITS_FIRST]
    names = [place for place in names if (rows["codec"] == place).any()]
    codec = np.searchsorted(-np.array(names), -rows["codec"][used])
    return {
        "names": [UPLOADS[place] for place in names],
        **_sent(run, rows["upload_bytes"], round_of_row, used, codec, len(names)),
        "by_device": _codecs_by_device(
            bins(run.done, most.bins), round_of_row[used], device[used], codec, names, count
        ),
        **_step_ups(rows["stepped_up"].astype(bool), device, round_of_row, count),
    }


def _sent(
    run: PageRun,
    upload_bytes: FloatArray,
    round_of_row: NDArray[np.int64],
    used: NDArray[np.bool_],
    codec: NDArray[np.int64],
    codecs: int,
) -> dict[str, Any]:
    """For bins of rounds the share of each codec in the updates, and the mean bytes of a round."""
    done = run.done
    bin_of_round, first, last = bins(done, MOST_STACKED)
    place = bin_of_round[round_of_row[used]] * codecs + codec
    counts = np.bincount(place, minlength=len(first) * codecs).reshape(len(first), codecs)
    found = {
        "bins": {"first": counted(first), "last": counted(last)},
        "shares": packed(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)),
    }
    whole: dict[str, NDArray[Any]] = {
        "upload_bytes": np.bincount(round_of_row, upload_bytes, minlength=done)
    }
    if "backhaul_bytes" in run.rounds:
        whole["backhaul_bytes"] = run.rounds["backhaul_bytes"]
    model_bits = run.said.scenario.learning.model_bits
    if not isinstance(model_bits, str):
        updates = np.bincount(round_of_row[used], minlength=done)
        whole["model_bytes"] = updates * (model_bits / 8)
    for name, values in whole.items():
        found[name] = packed(mean_by(bin_of_round, values.astype(np.float64), len(first)), "f8")
    return found


def _codecs_by_device(
    binned: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    round_of_row: NDArray[np.int64],
    device: NDArray[np.int64],
    codec: NDArray[np.int64],
    names: list[int],
    count: int,
) -> dict[str, Any]:
    """For bins of rounds and devices, the codec used most and the mean bits of a number."""
    bin_of_round, first, last = binned
    place = bin_of_round[round_of_row] * count + device
    size = len(first) * count
    counts = np.bincount(place * len(names) + codec, minlength=size * len(names))
    most_used = counts.reshape(size, -1).argmax(axis=1) if names else np.zeros(size)
    there = np.bincount(place, minlength=size) > 0
    bits = mean_by(place, NUMBER_BITS[np.array(names, dtype=np.int64)][codec], size)
    return {
        "bins": {"first": counted(first), "last": counted(last)},
        "codec": packed(np.where(there, most_used, NO_CODEC), "u1"),
        "bits": packed(bits),
    }


def _step_ups(
    stepped: NDArray[np.bool_],
    device: NDArray[np.int64],
    round_of_row: NDArray[np.int64],
    count: int,
) -> dict[str, Any]:
    """For each device, how often it was stepped up, and the last round after which it was."""
    last = np.full(count, -1)
    np.maximum.at(last, device[stepped], round_of_row[stepped])
    return {
        "stepped_up": packed(np.bincount(device[stepped], minlength=count), "i4"),
        "stepped_up_last": counted(last),
    }


def partition(run: PageRun) -> dict[str, Any] | None:
    """The samples of every class on every device, if the run has recorded them."""
    path = run.path / "partition.parquet"
    if not path.is_file():
        return None
    rows = read_columns(path, ("device", "edge", "label", "samples"))
    devices = run.said.scenario.fleet.num_devices
    device = whole_numbers(rows, "device", devices, path)
    label = whole_numbers(rows, "label", 100_000, path)
    classes = int(label.max(initial=0)) + 1
    if classes * devices > MOST_HELD:
        return None
    counts = np.zeros((classes, devices), dtype=np.int64)
    counts[label, device] = rows["samples"]
    edge = np.zeros(devices, dtype=np.int64)
    edge[device] = whole_numbers(rows, "edge", run.said.scenario.fleet.num_edges, path)
    return {"classes": classes, "edge": packed(edge, "i4"), "samples": packed(counts, "i4")}
