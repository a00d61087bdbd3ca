"""Small data sets and models of all tasks, as a user's own functions and modules."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

SAMPLES, TEST, PLACES, TOKENS = 60, 20, 6, 11


def _split(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "x_train": x[:SAMPLES],
        "y_train": y[:SAMPLES],
        "x_test": x[SAMPLES:],
        "y_test": y[SAMPLES:],
        "owner_train": np.arange(SAMPLES) % 7,
    }


def numbers() -> dict[str, np.ndarray]:
    """Two numbers that follow from five others, with noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(SAMPLES + TEST, 5))
    y = x @ rng.normal(size=(5, 2)) + 3.0 + 0.1 * rng.normal(size=(len(x), 2))
    return _split(x, y)


def one_number() -> dict[str, np.ndarray]:
    found = numbers()
    return found | {name: found[name][:, 0] for name in ("y_train", "y_test")}


def labels() -> dict[str, np.ndarray]:
    """Which of three sums are positive."""
    found = numbers()
    return found | {
        f"y_{part}": (np.cumsum(found[f"x_{part}"], 1)[:, :3] > 0).astype(int)
        for part in ("train", "test")
    }


def tokens() -> dict[str, np.ndarray]:
    """Sequences that count up, some by one and some by two."""
    rng = np.random.default_rng(2)
    count = SAMPLES + TEST
    first, by = rng.integers(TOKENS, size=(count, 1)), rng.integers(1, 3, size=(count, 1))
    whole = (first + by * np.arange(PLACES + 1)) % TOKENS
    return _split(whole[:, :-1].astype(np.int32), whole[:, 1:])


def token_classes() -> dict[str, np.ndarray]:
    """Which tokens a sequence has, as the class of its first."""
    found = tokens()
    return found | {f"y_{part}": found[f"x_{part}"][:, 0] % 3 for part in ("train", "test")}


class Line(nn.Module):
    """A layer with a hidden one before it."""

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(shape[0], 8)
        self.head = nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(x)))


class Reader(nn.Module):
    """At each place a score for every token, from that token and its place."""

    def __init__(self, shape: tuple[int, ...], tokens: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 8)
        self.place = nn.Parameter(0.1 * torch.randn(shape[0], 8))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, tokens)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.embed(x) + self.place))


class Recurrent(nn.Module):
    """A GRU, which has no stacked form."""

    def __init__(self, shape: tuple[int, ...], tokens: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, 6)
        self.state = nn.GRU(6, 6, batch_first=True)
        self.head = nn.Linear(6, tokens)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.state(self.embed(x))[0])


class Judge(Reader):
    """One score per class for a whole sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean(1)


class Absolute:
    """A task of a user's own: the absolute error, with two measures."""

    measures: ClassVar = {"mae": "lower", "within_one": "higher"}

    def output_shape(self, num_classes):
        return (num_classes,)

    def losses(self, outputs, labels):
        return (outputs - labels).abs().mean(1)

    def metrics(self, outputs, labels):
        error = (outputs - labels).abs().mean(1)
        return {"mae": error, "within_one": (error < 1).float()}
