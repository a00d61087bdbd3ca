"""Who fails when, as processes: asked for a round in any order, the same for every policy."""

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
    """Who is down."""

    def at(self, step: int) -> BoolArray:
        """As of one step, counted from 0."""
        ...


@dataclass(frozen=True)
class RandomFlags:
    """Down with one probability, anew every step."""

    probability: float
    draw: Draw

    def at(self, step: int) -> BoolArray:
        return self.draw(step) < self.probability


class MarkovFlags:
    """Up and down by turns: up ends with probability 1 / mean_up a step, down with 1 / mean_down.

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
    """Down where a trace says so; it starts again when it ends."""

    table: BoolArray
    """The steps on the first axis."""

    def at(self, step: int) -> BoolArray:
        return np.asarray(self.table[step % len(self.table)])


@dataclass(frozen=True)
class Some:
    """Another process, for some only."""

    inner: Flags
    concerned: BoolArray

    def at(self, step: int) -> BoolArray:
        return self.inner.at(step) & self.concerned


@dataclass(frozen=True)
class Never:
    """Nobody ever fails."""

    nobody: BoolArray

    def at(self, step: int) -> BoolArray:
        return self.nobody


class Cuts:
    """When the backhaul is cut in two, and which servers are on the one side.

    The sides stay as they are until the cut has healed; the next one has its own.
    """

    def __init__(self, cut: Flags, sides: Callable[[int], BoolArray]) -> None:
        self.cut, self.sides = cut, sides
        self.began: list[int | None] = []

    def at(self, step: int) -> BoolArray:
        """The servers on one side; all False when there is no cut."""
        while len(self.began) <= step:
            now = len(self.began)
            before = self.began[-1] if self.began else None
            self.began.append((now if before is None else before) if self._is_cut(now) else None)
        began = self.began[step]
        return np.zeros_like(self.sides(0)) if began is None else self.sides(began)

    def _is_cut(self, step: int) -> bool:
        return bool(self.cut.at(step).any())


def drawn_flags(settings: Random | Markov, draw: Draw) -> Flags:
    """The process of the given kind on the given draws."""
    if isinstance(settings, Random):
        return RandomFlags(settings.probability, draw)
    return MarkovFlags(settings, draw)


@dataclass(frozen=True)
class _ZeroOrOne(Real):
    """What a trace of failures may hold."""

    @property
    def wording(self) -> str:
        return "0 or 1"

    def holds_for(self, values: Any) -> Any:
        return (values == 0) | (values == 1)


ZERO_OR_ONE = _ZeroOrOne()
