"""How well plans predicted what the clock then said, from the tables of a run on real devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError

FloatArray = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

LEARNING = 5
"""Global rounds in which the coordinator gets to know the devices."""


@dataclass(frozen=True)
class Error:
    """Of some predictions: how many there were, and their errors as parts of what was measured."""

    count: int
    mean: float
    p95: float
    most: float
    bias: float
    """The mean with its sign: above 0 the prediction was too long."""

    @staticmethod
    def of(planned: FloatArray, measured: FloatArray) -> Error:
        """The error of predictions; those of nothing are left out."""
        some = measured > 0
        if not some.any():
            return Error(0, np.nan, np.nan, np.nan, np.nan)
        signed = (planned[some] - measured[some]) / measured[some]
        size = np.abs(signed)
        return Error(
            len(size),
            float(size.mean()),
            float(np.quantile(size, 0.95)),
            float(size.max()),
            float(signed.mean()),
        )

    @property
    def words(self) -> str:
        """In one line."""
        if not self.count:
            return "nothing was predicted"
        return f"mean {self.mean:.1%}, 95th percentile {self.p95:.1%}, most {self.most:.1%}"


@dataclass(frozen=True)
class Predictions:
    """What was predicted in a run, and how it came."""

    rounds: int
    clock_s: float
    """Of all global rounds, by the clock."""
    planned_s: float
    """Of all global rounds, as each was predicted when it began."""
    first: Error
    """Of the first global round, before anything was learned."""
    learning: Error
    """Of the rounds in which the coordinator gets to know the devices."""
    learned: Error
    """Of all rounds after those."""
    training: Error
    """Of each device's training, after those rounds."""
    uploads: Error
    gossip: Error
    """Of the slowest server in each round: all wait for the slowest link."""
    overhead: float
    """The part of the time, after those rounds, that is neither training, upload nor gossip."""
    unknown: float
    """The same without the overheads in the plans, which are the scenario's."""
    unpredicted: float
    """How far that was from what the predictions had for it, which the coordinator learns: the mean
    distance, where the two before are sums."""
    applied_s: tuple[float, float]
    """Until a plan was in force at an edge server and all of its devices: median and most."""

    @property
    def lines(self) -> list[str]:
        """For people."""
        median, most = (1e3 * each for each in self.applied_s)
        found = [
            f"by the clock {self.clock_s:.1f} s, predicted {self.planned_s:.1f} s",
            f"predicted time of a global round: the first {self.first.words}",
        ]
        if self.learned.count:
            found.append(f"  after {LEARNING} rounds: {self.learned.words}")
        return [
            *found,
            f"  training: {self.training.words}",
            f"  uploads: {self.uploads.words}",
            f"  gossip: {self.gossip.words}",
            f"  neither of these: {self.overhead:.1%} of the time, {self.unknown:.1%} in no plan,"
            f" {self.unpredicted:.1%} in no prediction",
            f"a plan was in force after {median:.1f} ms (median), {most:.1f} ms (most)",
        ]

    def table(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def predictions_of(folder: Path) -> Predictions:
    """What was predicted and measured in the run in a folder."""
    names = ("global_round", "clock_s", "planned_clock_s")
    rounds = read_columns(folder / "rounds.parquet", names)
    edges = read_columns(
        folder / "edges.parquet",
        (
            *("global_round", "edge_round", "edge", "compute_s", "upload_s", "backhaul_s"),
            *("planned_edge_time_s", "planned_backhaul_s", "enforce_s"),
        ),
    )
    devices = read_columns(
        folder / "devices.parquet",
        (
            *("global_round", "edge_round", "upload_bytes", "compute_s", "planned_compute_s"),
            *("upload_s", "planned_upload_s"),
        ),
    )
    clock_s, planned_s, t = rounds["clock_s"], rounds["planned_clock_s"], rounds["global_round"]
    late = t >= LEARNING if (t >= LEARNING).any() else t >= 0
    came = (devices["upload_bytes"] > 0) & np.isin(devices["global_round"], t[late])
    after = np.isin(edges["global_round"], t[late])
    beyond_s = clock_s[late] - known_s(edges, t[late])
    unknown_s = beyond_s - overheads_s(edges, devices, t[late])
    unpredicted_s = unknown_s - learned_s(edges, t[late], planned_s[late])
    return Predictions(
        rounds=len(t),
        clock_s=float(clock_s.sum()),
        planned_s=float(planned_s.sum()),
        first=Error.of(planned_s[:1], clock_s[:1]),
        learning=Error.of(planned_s[t < LEARNING], clock_s[t < LEARNING]),
        learned=Error.of(planned_s[t >= LEARNING], clock_s[t >= LEARNING]),
        training=Error.of(devices["planned_compute_s"][came], devices["compute_s"][came]),
        uploads=Error.of(devices["planned_upload_s"][came], devices["upload_s"][came]),
        gossip=Error.of(
            slowest(edges, "planned_backhaul_s", t[late]), slowest(edges, "backhaul_s", t[late])
        ),
        overhead=float(beyond_s.sum() / clock_s[late].sum()),
        unknown=float(unknown_s.sum() / clock_s[late].sum()),
        unpredicted=float(np.abs(unpredicted_s).sum() / clock_s[late].sum()),
        applied_s=(
            float(np.median(edges["enforce_s"][after])),
            float(np.max(edges["enforce_s"][after])),
        ),
    )


def slowest(edges: Columns, name: str, rounds: NDArray[np.int64]) -> FloatArray:
    """For each global round, the greatest value of any edge server."""
    return np.array([edges[name][edges["global_round"] == t].max() for t in rounds.tolist()])


def known_s(edges: Columns, rounds: NDArray[np.int64]) -> FloatArray:
    """For each global round, the measured seconds of its slowest devices and slowest gossip."""
    found = np.zeros(len(rounds))
    for place, t in enumerate(rounds.tolist()):
        mine = edges["global_round"] == t
        turn, busy_s = edges["edge_round"][mine], (edges["compute_s"] + edges["upload_s"])[mine]
        found[place] = sum(busy_s[turn == r].max() for r in np.unique(turn))
        found[place] += edges["backhaul_s"][mine].max()
    return found


def learned_s(edges: Columns, rounds: NDArray[np.int64], planned_s: FloatArray) -> FloatArray:
    """For each global round, what its prediction had beyond its plans, as was learned before."""
    found = planned_s - slowest(edges, "planned_backhaul_s", rounds)
    for place, t in enumerate(rounds.tolist()):
        mine = edges["global_round"] == t
        turn, ends_s = edges["edge_round"][mine], edges["planned_edge_time_s"][mine]
        found[place] -= sum(ends_s[turn == r].max() for r in np.unique(turn))
    return found


def overheads_s(edges: Columns, devices: Columns, rounds: NDArray[np.int64]) -> FloatArray:
    """For each global round, the overheads in its plans: planned time less that of any device."""
    found = np.zeros(len(rounds))
    busy_s = devices["planned_compute_s"] + devices["planned_upload_s"]
    for place, t in enumerate(rounds.tolist()):
        for r in np.unique(edges["edge_round"][edges["global_round"] == t]):
            mine, theirs = (
                (each["global_round"] == t) & (each["edge_round"] == r) for each in (edges, devices)
            )
            found[place] += edges["planned_edge_time_s"][mine].max() - busy_s[theirs].max()
    return found


def read_columns(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Columns of one of a run's tables; an error if it has them not."""
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path, columns=list(names))
        return {name: table.column(name).to_numpy() for name in names}
    except (OSError, KeyError, ArrowException):
        raise InputError(f"{path}: has no predictions and measurements") from None
