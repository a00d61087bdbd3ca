"""Progress on stderr: a bar in a terminal, else lines for long work."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from fedrt.measures import measure_in
from fedrt.units import readable_time

if TYPE_CHECKING:
    from rich.progress import Progress

REDRAW_S = 0.1
"""Seconds between two drawings of a bar in a notebook."""


class NotebookBar:
    """A progress bar below the cell of a notebook, with the methods of rich's that are used."""

    def __init__(self, display: Callable[..., Any], html: Callable[[str], Any]) -> None:
        self.html, self.done, self.total, self.words = html, 0, 0, ""
        self.shown_at = 0.0
        self.handle = display(html(""), display_id=True)

    def add_task(self, description: str, total: int | None) -> int:
        """Set what is shown beside the bar, and how long it is; None: nobody knows."""
        self.words, self.total = description, total or 0
        self._show()
        return 0

    def update(self, task: int, advance: int = 0, description: str | None = None) -> None:
        """Change how far the bar is, or what is shown beside it."""
        self.done += advance
        self.words = self.words if description is None else description
        if time.monotonic() - self.shown_at > REDRAW_S or self.done == self.total:
            self._show()

    def advance(self, task: int) -> None:
        """Move the bar on by one."""
        self.update(task, advance=1)

    def _show(self) -> None:
        self.shown_at = time.monotonic()
        length = f'max="{self.total}" value="{self.done}"' if self.total else ""
        count = f"{self.done}/{self.total}" if self.total else str(self.done)
        text = f"<progress {length}></progress> {count} {escape(self.words)}"
        self.handle.update(self.html(text))


def _notebook() -> NotebookBar | None:
    """A bar for the notebook that this runs in; None elsewhere."""
    ipython = sys.modules.get("IPython")  # loaded wherever there is a notebook
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    return NotebookBar(display, HTML)


@contextmanager
def _bar(total: int | None, *, quiet: bool = False) -> Iterator[Progress | NotebookBar | None]:
    """A progress bar in a notebook, else on stderr; None if that is not a terminal."""
    there = None if quiet else _notebook()
    if there is not None:
        yield there
        return
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        yield bar


@contextmanager
def round_progress(
    total: int | None, *, quiet: bool = False, lines: bool = False, what: str = "round"
) -> Iterator[Callable[[str, int], Callable[[Any], None]] | None]:
    """A function `start(policy, seed)` that returns the callback for each round.

    None if it is to be quiet.

    Without a total the bar only shows activity. With `lines` there is a line for
    every tenth of the total where there is no terminal. `what` is what is counted.
    """
    with _bar(total, quiet=quiet) as bar:
        if bar is None:
            yield _lines(total, what) if lines and total and not quiet else None
            return
        task: Any = bar.add_task(f"{what}s", total=total)

        def start(policy: str, seed: int) -> Callable[[Any], None]:
            bar.update(task, description=f"{policy}, seed {seed}")
            return lambda done: bar.advance(task)

        yield start


def say_without_terminal(line: str) -> None:
    """Print a line on stderr, unless there is a progress bar."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def _lines(total: int, what: str) -> Callable[[str, int], Callable[[Any], None]]:
    """Progress as lines on stderr."""
    done = 0

    def start(policy: str, seed: int) -> Callable[[Any], None]:
        def step(_: Any) -> None:
            nonlocal done
            done += 1
            if done * 10 // total > (done - 1) * 10 // total:
                line = f"{what} {done} of {total}: {policy}, seed {seed}"
                print(line, file=sys.stderr, flush=True)

        return step

    return start


@contextmanager
def training_progress(
    rounds: int, *, quiet: bool = False
) -> Iterator[Callable[[Any], None] | None]:
    """The callback for each round of a trained run; shows its measure and simulated time.

    Without a terminal it prints a line now and then instead of a bar.
    """
    if quiet:
        yield None
        return
    state = {"value": "-"}

    def words(done: Any) -> str:
        measure = measure_in(done.metrics)
        if not math.isnan(done.metrics[measure.name]):
            state["value"] = measure.say(done.metrics[measure.name], 1)
        time, loss = readable_time(done.ends_at_s), done.metrics["loss"]
        return f"{measure.name} {state['value']}, loss {loss:.3f}, simulated {time}"

    with _bar(rounds) as bar:
        if bar is None:
            yield lambda done: _line(done, rounds, words(done))
            return
        task: Any = bar.add_task("starting", total=rounds)
        yield lambda done: bar.update(task, advance=1, description=words(done))


@contextmanager
def cell_progress(name: str, rounds: int) -> Iterator[Callable[[Any], None] | None]:
    """The callback for each round of a cell; None without a terminal."""
    with _bar(rounds) as bar:
        if bar is None:
            yield None
            return
        task: Any = bar.add_task(name, total=rounds)
        yield lambda done: bar.advance(task)


def _line(done: Any, rounds: int, text: str) -> None:
    """Print a line for every tenth of a run."""
    number = done.last.t + 1
    if number * 10 // rounds > (number - 1) * 10 // rounds:
        print(f"round {number} of {rounds}: {text}", file=sys.stderr, flush=True)


@contextmanager
def comparison_progress(
    total: int, *, quiet: bool = False
) -> Iterator[Callable[[str, int, Any], None] | None]:
    """The callback for each round of each policy and seed."""
    with round_progress(total, quiet=quiet, lines=True) as start:
        if start is None:
            yield None
        else:
            yield lambda policy, seed, done: start(policy, seed)(done)
