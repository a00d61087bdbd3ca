"""What is read from a log of a mobile network: samples of SNR and rate over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
MOST_LINES = 20
"""Lines about the bad rows of one log."""


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


Reader = Callable[[str, str, list[str]], Log | None]
"""Reads a text with its name; None after adding lines to the problems."""


class BadRows:
    """The lines about the bad rows of a log, a few of them in full."""

    def __init__(self, name: str, problems: list[str]) -> None:
        self.name, self.problems, self.count = name, problems, 0

    def add(self, row: int, line: str) -> None:
        """Add the line about a row, which is counted from 1 as editors do."""
        self.count += 1
        if self.count <= MOST_LINES:
            self.problems.append(f"{self.name}: row {row}: {line}")

    def end(self) -> None:
        """Say how many more there are."""
        more = self.count - MOST_LINES
        if more > 0:
            self.problems.append(f"{self.name}: and {more} more bad rows")
