"""Engines on a Ray cluster for tests; the cluster is that of the kill campaign."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from typing import Any

from ray_nodes import Nodes
from torch import Tensor

from fedrt.distributed.engine_ray import RayEngine
from fedrt.distributed.pool import Pool
from fedrt.distributed.worker import Recipe, packed
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.stacked.engine import StackedEngine
from support.children import LIMIT_S
from support.learning_cases import Case, engine_case, method, small

__all__ = [
    "Nodes",
    "all_there",
    "alone",
    "double_case",
    "engine",
    "f64_recipe",
    "process_of",
    "train",
]

CHUNK = 2


def recipe(case: Case, **changes: Any) -> Recipe:
    """What the workers of a case train from."""
    made = Recipe(
        samples=packed(case.samples),
        batches=case.batches,
        scenario=small(f"learning.learning_rate={case.learning_rate}"),
        num_classes=5,
        seed=99,
        chunk=CHUNK,
        paths=tuple(sys.path),
    )
    return replace(made, **changes)


def f64_recipe(case: Case, **changes: Any) -> Recipe:
    return recipe(case, scenario=small('learning.dtype="float64"'), **changes)


def alone(case: Case) -> StackedEngine:
    """The same training in this process."""
    return StackedEngine(
        case.flat,
        case.samples,
        case.batches,
        method(case.learning_rate),
        augment=False,
        chunk=CHUNK,
        by_edge=True,
    )


def engine(case: Case, workers: int, **options: Any) -> tuple[RayEngine, list[str]]:
    """An engine on the cluster that this process has joined, and what it says."""
    said: list[str] = []
    pool = Pool(f64_recipe(case), workers, say=said.append, **options)
    return RayEngine(pool), said


def all_there(made: RayEngine) -> None:
    """Wait until every worker is there."""
    ends = time.monotonic() + LIMIT_S
    while made.pool.coming:
        assert time.monotonic() < ends, "workers did not come"
        for ref in made.pool._ready(list(made.pool.coming)):
            made.pool._welcome(ref)


def train(made: RayEngine, models: Tensor, order: TrainingOrder) -> Tensor:
    """The models after an order; an engine that hangs fails the test, not the machine."""
    found: list[Tensor] = []
    thread = threading.Thread(
        target=lambda: found.append(made.train(models, order).models), daemon=True
    )
    thread.start()
    thread.join(LIMIT_S)
    assert found, "no models came out"
    return found[0]


def process_of(made: RayEngine, number: int) -> int:
    """The process of a worker."""
    return int(made.pool.there[number].where.split()[-1])


def double_case() -> Case:
    return engine_case("sequential", dtype="float64")
