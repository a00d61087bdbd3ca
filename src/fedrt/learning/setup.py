"""All that training needs, made from a scenario once: data, its parts, the model, the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedrt.checks import problem
from fedrt.errors import InputError, reason
from fedrt.learning.batches import Batches
from fedrt.learning.engine import Engine
from fedrt.learning.engine_sequential import SequentialEngine
from fedrt.learning.flat import FlatModel
from fedrt.learning.measure import BITS_PER_PARAMETER
from fedrt.learning.models import check_trains, make_model
from fedrt.learning.partition import load_divided
from fedrt.learning.samples import Samples
from fedrt.scenario.model import Scenario
from fedrt.world.world import World

DTYPES = {"float32": torch.float32, "float64": torch.float64}

SMALL_MODEL = 50_000

EngineFactory = Callable[[FlatModel, Samples, Batches, Scenario], Engine]


def _sequential(model: FlatModel, samples: Samples, batches: Batches, scenario: Scenario) -> Engine:
    learning = scenario.learning
    return SequentialEngine(
        model,
        samples,
        batches,
        learning_rate=learning.learning_rate,
        momentum=learning.momentum,
        augment=learning.augment,
    )


ENGINES: dict[str, EngineFactory] = {"sequential": _sequential}


@dataclass(frozen=True)
class Setup:
    """What every learner of a world shares. Engines and the model are scratch space, not state."""

    world: World
    model: FlatModel
    samples: Samples
    batches: Batches
    engine: Engine
    first_model: Tensor
    notes: tuple[str, ...] = ()
    """What a user should know of it before it trains."""


def make_setup(
    world: World, *, engine: str = "sequential", device: str = "cpu", data_dir: Path | None = None
) -> Setup:
    """The data, model and engine of a scenario under a seed."""
    scenario = world.scenario
    learning = scenario.learning
    if engine not in ENGINES:
        raise InputError(problem("engine", engine, "one of " + ", ".join(ENGINES)))
    where = find_device(device)
    dtype = DTYPES[learning.dtype]
    dataset, parts = load_divided(learning, data_dir, world.fleet.edge_of_device, world.seed)
    if learning.augment and dataset.train_images.ndim != 4:
        raise InputError("scenario.learning.augment = true: needs images, (n, height, width, c)")
    samples = Samples(dataset, dtype, where)
    batches = Batches(parts, learning.batch_size, world.seed)
    module = make_model(learning.model, samples.shape, dataset.num_classes, world.seed)
    check_trains(module, learning.model, samples.shape, learning.batch_size)
    model = FlatModel(module, dtype, where)
    if where.type == "cpu" and "OMP_NUM_THREADS" not in os.environ and model.size < SMALL_MODEL:
        # Threads cost a small model more than they bring: twice the time with two.
        torch.set_num_threads(1)
    return Setup(
        world=world,
        model=model,
        samples=samples,
        batches=batches,
        engine=ENGINES[engine](model, samples, batches, scenario),
        first_model=model.state(),
        notes=_notes(world.model_bits, model.num_parameters),
    )


def _notes(model_bits: float, parameters: int) -> tuple[str, ...]:
    """A line if the scenario's upload is not the model that trains."""
    bits = BITS_PER_PARAMETER * parameters
    if abs(model_bits - bits) <= 1e-3 * bits:
        return ()
    return (
        f"note: scenario.learning.model_bits = {model_bits:.6g}, but the model has {parameters}"
        f" parameters, {bits} bit; 'measured' takes them",
    )


def find_device(name: str) -> torch.device:
    """The torch device of that name; `auto` takes a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        first = reason(error).split(". ")[0]
        raise InputError(f"device = {name!r}: cannot be used here: {first}") from None
    return device
