"""What is read from a log of a mobile network: samples of SNR and rate over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
MOST_PLACES = 5
"""Rows or logs that the line about a kind of fault names."""


@dataclass(frozen=True)
class Log:
    """The samples of one log, NaN where it has no value."""

    begins_s: FloatArray
    """When each sample begins, from the beginning of the log."""
    length_s: FloatArray
    """How long it lasts: its weight in a mean."""
    bps: FloatArray
    snr_db: FloatArray | None = None
    """None in formats that have no SNR."""

    @property
    def ends_s(self) -> float:
        """When the last sample ends."""
        return float((self.begins_s + self.length_s).max())


@dataclass
class FaultKind:
    """The faults of one kind: the first of them in words, the places of a few, how many."""

    line: str
    places: list[tuple[str, int | None]] = field(default_factory=list)
    count: int = 0
    logs: set[str] = field(default_factory=set)

    def text(self) -> str:
        """The line about all of them."""
        (name, row), several = self.places[0], len(self.logs) > 1
        first = f"{name}: {self.line}" if row is None else f"{name}: row {row}: {self.line}"
        if self.count == 1:
            return first
        what = f"{len(self.logs)} logs"
        if row is not None:
            what = f"{self.count} rows" + (f" of {what}" if several else "")
        words, last = list[str](), None if several else name
        for log, number in self.places:
            words.append(f"{number}" if log == last else f"{log} {number or ''}".rstrip())
            last = log
        more = ", ..." if self.count > len(words) else ""
        return f"{first}; {what} are like it: {', '.join(words)}{more}"


class BadLogs:
    """What is wrong with some logs: one line for each kind of fault, with its first places."""

    def __init__(self) -> None:
        self.count = 0
        self._kinds: dict[str, FaultKind] = {}

    def add(self, name: str, line: str, kind: str | None = None, row: int | None = None) -> None:
        """Add a fault of a log, or of its row, counted from 1 as editors do.

        BadLogs are of one kind where they have the same `kind`, or without one the same line.
        """
        self.count += 1
        found = self._kinds.setdefault(line if kind is None else kind, FaultKind(line))
        found.count += 1
        found.logs.add(name)
        if len(found.places) < MOST_PLACES:
            found.places.append((name, row))

    def lines(self) -> list[str]:
        """A line for each kind: its first fault, how many there are, and where the first are."""
        return [kind.text() for kind in self._kinds.values()]


Reader = Callable[[str, str, BadLogs], Log | None]
"""Reads a text with its name; None after adding to the faults."""
