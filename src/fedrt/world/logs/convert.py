"""Traces from logs of mobile networks: samples become means over edge rounds.

An edge round has the mean of the samples that begin in it; one without any has the value before it,
or, at the beginning of a log, the first that follows. Every file is one device, edge server or
link, in the order in which they are given. The trace ends with the shortest of them, or has a given
number of global rounds, in which shorter ones start again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.world.logs.log import BadLogs, Log

FloatArray = NDArray[np.float64]
LEAST_BPS = 1e3
"""What a rate below it is raised to: a trace has no links and no bandwidths of zero."""
MOST_SLOTS = 1_000_000
MOST_ROWS = 5_000_000
TARGETS = ("channel", "bandwidth", "backhaul")


@dataclass(frozen=True)
class Conversion:
    """How logs become a trace."""

    to: str
    edge_round_s: float
    edge_rounds: int
    global_rounds: int | None = None
    links: tuple[tuple[int, int], ...] = ()
    """Of a backhaul: the two edge servers of each log's link."""
    bits_per_hz: float = 1.0
    """Of a bandwidth: the bits per second and hertz that a log's rates stand for."""

    @property
    def slot_s(self) -> float:
        """The seconds that one value stands for: those of an edge round, or of all of them."""
        return self.edge_round_s * (self.edge_rounds if self.to == "backhaul" else 1)

    @property
    def slots_per_round(self) -> int:
        return 1 if self.to == "backhaul" else self.edge_rounds


@dataclass(frozen=True)
class Converted:
    """The columns of a trace, and notes about what the logs did not have."""

    columns: dict[str, NDArray[np.float64] | NDArray[np.int64]]
    global_rounds: int
    notes: tuple[str, ...]


def convert(logs: Mapping[str, Log], how: Conversion) -> Converted:
    """The trace of logs, by their names."""
    faults = BadLogs()
    notes: list[str] = []
    series = []
    for name, log in logs.items():
        values = _slots(name, log, how, faults, notes)
        if values is not None:
            series.append(values)
    if faults.count:
        raise InputError(faults.lines())
    rounds = _rounds(list(logs), [len(values) for values in series], how)
    slots = rounds * how.slots_per_round
    if slots * len(series) > MOST_ROWS:
        raise InputError(
            f"the trace would have {slots * len(series)} rows: must be at most {MOST_ROWS}; give"
            " a longer `edge_round_s` or fewer `global_rounds`"
        )
    table = np.stack([np.resize(values[: _whole(values, how)], slots) for values in series])
    return Converted(_columns(table, rounds, how), rounds, tuple(notes))


def _whole(values: FloatArray, how: Conversion) -> int:
    """The values of a log up to its last whole global round, or all of them if it has none."""
    each = how.slots_per_round
    return len(values) // each * each or len(values)


def _rounds(names: Sequence[str], lengths: Sequence[int], how: Conversion) -> int:
    """The global rounds of the trace."""
    if how.global_rounds is not None:
        return how.global_rounds
    shortest = int(np.argmin(lengths))
    rounds = lengths[shortest] // how.slots_per_round
    if not rounds:
        raise InputError(
            f"{names[shortest]}: has {lengths[shortest]} whole edge rounds, a global round"
            f" {how.slots_per_round}: must have one global round or more; give a shorter"
            " `edge_round_s`, or `global_rounds`"
        )
    return rounds


def _slots(
    name: str, log: Log, how: Conversion, faults: BadLogs, notes: list[str]
) -> FloatArray | None:
    """The mean of a log in every whole edge round (of a backhaul: global round)."""
    wanted = log.snr_db if how.to == "channel" else log.bps
    if wanted is None:
        faults.add(name, "has rates alone, no SNR: `to` must be bandwidth or backhaul")
        return None
    there = ~np.isnan(wanted)
    if not there.any():
        what = "SNR" if how.to == "channel" else "rate"
        faults.add(name, f"has no {what} in any row")
        return None
    count = max(1, int((log.ends_s + 1e-9) // how.slot_s))
    if count > MOST_SLOTS:
        rule = f"at most {MOST_SLOTS}; give a longer `edge_round_s`"
        faults.add(name, f"lasts {count} rounds of {how.slot_s:g} s: must be {rule}", "rounds")
        return None
    slot = (log.begins_s / how.slot_s).astype(np.int64)
    used = there & (slot < count)
    weight = np.bincount(slot[used], log.length_s[used], minlength=count)
    total = np.bincount(slot[used], (wanted * log.length_s)[used], minlength=count)
    empty = weight == 0
    if empty.all():
        faults.add(name, f"has no value in its whole rounds of {how.slot_s:g} s")
        return None
    values = total / np.where(empty, 1.0, weight)
    if empty.any():
        notes.append(
            f"{name}: {int(empty.sum())} of {count} rounds of {how.slot_s:g} s have no value:"
            " each has the one before it, the first ones the first that follows"
        )
        last = np.maximum.accumulate(np.where(empty, -1, np.arange(count)))
        values = values[np.where(last < 0, int(np.argmin(empty)), last)]
    if how.to == "channel":
        return values
    low = values < LEAST_BPS
    if low.any():
        notes.append(f"{name}: {int(low.sum())} of {count} rates are raised to {LEAST_BPS:g} bit/s")
    return np.maximum(values, LEAST_BPS)


def _columns(
    table: FloatArray, rounds: int, how: Conversion
) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    """The columns of the trace, its rows by global round, edge round, and device or link."""
    count, each = len(table), how.slots_per_round
    t, r, n = (part.ravel() for part in np.indices((rounds, each, count)))
    values = table.T.ravel()
    if how.to == "channel":
        return {"global_round": t, "edge_round": r, "device": n, "snr_db": values}
    if how.to == "bandwidth":
        hz = values / how.bits_per_hz
        return {"global_round": t, "edge_round": r, "edge": n, "bandwidth_hz": hz}
    links = np.array(how.links)
    return {"global_round": t, "edge": links[n, 0], "edge2": links[n, 1], "bps": values}
