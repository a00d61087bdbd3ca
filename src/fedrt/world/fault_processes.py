"""Random processes of failures: the same for every policy, whatever the order of asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.scenario.faults import Markov, Random
from fedrt.validation import Real

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Draw = Callable[[int], FloatArray]
"""Uniform values in [0, 1) for everyone, as of one step."""


class Flags(Protocol):
    """A process that says which devices, servers or links are down."""

    def at(self, step: int) -> BoolArray:
        """Which of them are down at one step, counted from 0."""
        ...


@dataclass(frozen=True)
class RandomFlags:
    """Each is down with a fixed probability, drawn independently at every step."""

    probability: float
    draw: Draw

    def at(self, step: int) -> BoolArray:
        return self.draw(step) < self.probability


class MarkovFlags:
    """Each alternates between up and down, as a two-state Markov chain.

    Up ends with probability 1 / mean_up a step, down with 1 / mean_down.

    Stationary from the first step on. A state depends on all before it, so the last one is kept and
    an earlier step starts over.
    """

    def __init__(self, settings: Markov, draw: Draw) -> None:
        self.settings, self.draw = settings, draw
        self._restart()

    def _restart(self) -> None:
        up, down = self.settings.mean_up, self.settings.mean_down
        self.step, self.down = 0, self.draw(0) < down / (up + down)

    def at(self, step: int) -> BoolArray:
        if step < self.step:
            self._restart()
        while self.step < step:
            self.step += 1
            fresh = self.draw(self.step)
            stays = fresh >= 1.0 / self.settings.mean_down
            self.down = np.where(self.down, stays, fresh < 1.0 / self.settings.mean_up)
        return self.down


@dataclass(frozen=True)
class TableFlags:
    """Down where a trace says so; the trace is repeated when it ends."""

    table: BoolArray
    """The steps on the first axis."""

    def at(self, step: int) -> BoolArray:
        return np.asarray(self.table[step % len(self.table)])


@dataclass(frozen=True)
class Some:
    """Another process, restricted to some of the devices, servers or links."""

    inner: Flags
    concerned: BoolArray

    def at(self, step: int) -> BoolArray:
        return self.inner.at(step) & self.concerned


@dataclass(frozen=True)
class Never:
    """A process in which nothing ever fails."""

    nobody: BoolArray

    def at(self, step: int) -> BoolArray:
        return self.nobody


class Cuts:
    """A process that splits the backhaul in two, and says which servers are on one side.

    The sides stay as they are until the cut has healed; the next one has its own.
    """

    def __init__(self, cut: Flags, sides: Callable[[int], BoolArray]) -> None:
        self.cut, self.sides = cut, sides
        self.began: list[int | None] = []

    def at(self, step: int) -> BoolArray:
        """The servers on one side of the cut; all False when there is none."""
        while len(self.began) <= step:
            now = len(self.began)
            before = self.began[-1] if self.began else None
            self.began.append((now if before is None else before) if self._is_cut(now) else None)
        began = self.began[step]
        return np.zeros_like(self.sides(0)) if began is None else self.sides(began)

    def _is_cut(self, step: int) -> bool:
        return bool(self.cut.at(step).any())


def drawn_flags(settings: Random | Markov, draw: Draw) -> Flags:
    """The failure process of the given kind on the given random draws."""
    if isinstance(settings, Random):
        return RandomFlags(settings.probability, draw)
    return MarkovFlags(settings, draw)


@dataclass(frozen=True)
class _ZeroOrOne(Real):
    """The rule for the values in a trace of failures: 0 or 1."""

    @property
    def wording(self) -> str:
        return "0 or 1"

    def holds_for(self, values: Any) -> Any:
        return (values == 0) | (values == 1)


ZERO_OR_ONE = _ZeroOrOne()
