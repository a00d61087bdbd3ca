"""Trained runs for tests that take a tenth of a second, and how two of them differ."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from math import nan
from pathlib import Path

import torch
from torch import Tensor, nn

from fedrt.ledger import Books
from fedrt.plan import Plan
from fedrt.policies.static_t import StaticT
from fedrt.records.summary import Summary
from fedrt.scenario import Scenario, load_scenario
from fedrt.studies.training import RunOptions, carry_on, start_run
from fedrt.world.observation import Observation
from support.tiny import SETTINGS


class Softmax(nn.Module):
    """The least model there is: 650 parameters on digits."""

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        size = 1
        for length in shape:
            size *= length
        self.layer = nn.Linear(size, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.flatten(1))


class Five(nn.Module):
    """A model of five numbers: any codec's message is longer than it."""

    count = 5

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.slope, self.classes = nn.Parameter(torch.linspace(-1, 1, self.count)), num_classes

    def forward(self, images: Tensor) -> Tensor:
        every = self.slope.repeat(-(-self.classes // self.count))[: self.classes]
        return images.flatten(1)[:, : self.classes] * every


class Six(Five):
    """A model of six numbers: messages of few bits are shorter than it, others longer."""

    count = 6


class Perceptron(nn.Module):
    """One hidden layer of 64: learns digits to 95 % in seconds."""

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(1),
            nn.Linear(shape[0] * shape[1] * shape[2], 64),
            nn.ReLU(),
            nn.Linear(64, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.body(images)


class Normed(Softmax):
    """A model with nine buffers: the means, variances and count of a batch norm of four."""

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(shape, 4)
        self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(self.norm(super().forward(images)))


TRAINING = (
    *SETTINGS,
    "rounds={global_rounds=5,edge_rounds=2,local_steps=2,gossip_steps=2}",
    'learning={dataset="digits",model="support.trained:Softmax",model_bits=20800}',
    'learning={learning_rate=0.05,batch_size=4,evaluate_every=2,partition={kind="iid"}}',
)
OPTIONS = RunOptions(engine="sequential")


def trained(*settings: str) -> Scenario:
    """A small scenario that trains, with further `key=value` settings."""
    return load_scenario("quickstart", [*TRAINING, *settings])


def start(path: Path, scenario: Scenario, policy: str = "fedrt", seed: int = 0, **options) -> Path:
    """A new run directory."""
    start_run(path, scenario, policy, seed, "fedrt run", replace(OPTIONS, **options))
    return path


def go_on(path: Path) -> Summary:
    """Carry a run on to its end without a word."""
    return carry_on(path, note=lambda line: None)


def train(path: Path, scenario: Scenario, policy: str = "fedrt", seed: int = 0, **options) -> Path:
    """A whole run; its directory."""
    go_on(start(path, scenario, policy, seed, **options))
    return path


class Leisurely(Softmax):
    """Takes its time where FEDRT_TEST_PAUSE_S says how much, without work for the processor."""

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(float(os.environ.get("FEDRT_TEST_PAUSE_S", "0")))
        return super().forward(images)


class Moody:
    """A policy with a state of its own: how it mixes depends on how often it was asked."""

    name = "moody"
    energy_horizon = "paper"

    def __init__(self) -> None:
        self.asked = 0

    def plan(self, seen: Observation, books: Books) -> Plan:
        self.asked += 1
        plan = StaticT().plan(seen, books)
        if plan.gossip is None:
            return plan
        return replace(plan, gossip=replace(plan.gossip, steps=1 + self.asked % 3))


class Brittle(Softmax):
    """Gives NaN once it has learned for a while: when its weights have grown."""

    def forward(self, images: Tensor) -> Tensor:
        grown = self.layer.weight.norm() > 2.04
        return super().forward(images) + (nan if grown else 0.0)


class Touchy(Softmax):
    """Raises on data that are not all zero: only once it is trained."""

    def forward(self, images: Tensor) -> Tensor:
        if images.detach().abs().sum() > 0:
            raise RuntimeError("not this one")
        return super().forward(images)


class Tired:
    """A policy that raises after so many global rounds as FEDRT_TEST_ROUNDS says."""

    name = "tired"
    energy_horizon = "paper"

    def __init__(self) -> None:
        self.rounds = 0

    def plan(self, seen: Observation, books: Books) -> Plan:
        if self.rounds >= int(os.environ["FEDRT_TEST_ROUNDS"]):
            raise KeyError("enough")
        self.rounds += seen.backhaul is not None
        return StaticT().plan(seen, books)
