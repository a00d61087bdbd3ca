"""The protocol of callbacks: a round begins, a round has ended, a run has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.records.history import History
from fedrt.records.summary import Summary
from fedrt.scenario import Scenario
from fedrt.system.plugins import own_code
from fedrt.validation import shown

Record = Mapping[str, Any]
"""The row of the table of rounds for one global round, as plain numbers and texts."""


@dataclass(frozen=True)
class RunInfo:
    """The run that a callback is told of."""

    folder: Path
    scenario: Scenario
    policy: str
    seed: int
    first: int
    """The first global round that is told of: those before it ended in an earlier process."""

    @property
    def name(self) -> str:
        """The name of the run among others of its scenario."""
        return f"{self.policy}-{self.seed}"


class Callback:
    """A listener to runs that train; a subclass has what it wants to hear of.

    Any object with some of these methods will do. A callback hears of every run of a comparison,
    one global round of each at a time. It changes nothing: what it raises ends the run in a line.
    """

    def round_begins(self, run: RunInfo, t: int) -> None:
        """Global round t of a run begins."""

    def round_ended(self, run: RunInfo, record: Record) -> None:
        """A global round has ended and is saved; `record` is its row in the table of rounds."""

    def run_ended(self, run: RunInfo, summary: Summary) -> None:
        """A run has ended and is saved."""


EVENTS = ("round_begins", "round_ended", "run_ended")


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Raise an error about something that listens to nothing."""
    for each in callbacks:
        if not any(callable(getattr(each, event, None)) for event in EVENTS):
            what = shown(type(each).__name__)
            raise InputError(f"callbacks: {what} has none of the methods {', '.join(EVENTS)}")


class Calls:
    """Tells callbacks of one run."""

    def __init__(self, callbacks: Sequence[Any], run: RunInfo) -> None:
        self.callbacks, self.run = callbacks, run

    def round_begins(self, t: int) -> None:
        """Tell that a global round begins, if it is a new one."""
        if t >= self.run.first:
            self._tell("round_begins", t)

    def round_ended(self, history: History) -> None:
        """Tell that the newest global round of a history has ended."""
        if self.callbacks:
            newest = history.chunks["rounds"][-1]
            self._tell("round_ended", {name: values[-1].item() for name, values in newest.items()})

    def run_ended(self, summary: Summary) -> None:
        """Tell that the run has ended."""
        self._tell("run_ended", summary)

    def _tell(self, event: str, said: Any) -> None:
        for each in self.callbacks:
            method = getattr(each, event, None)
            if method is not None:
                with own_code(f"callbacks: {type(each).__name__}.{event}"):
                    method(self.run, said)
