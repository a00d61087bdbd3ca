"""Everything that training needs, made from a scenario: data, partition, model and engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from fedrt.data.batches import Batches
from fedrt.data.partitions import Parts
from fedrt.errors import InputError, reason
from fedrt.learning.aggregators import is_linear, make_aggregator
from fedrt.learning.engines.engine import Closes, Engine, Evaluates
from fedrt.learning.engines.method import Method, make_method
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.evaluate import Evaluate, FloatArray, make_evaluation
from fedrt.learning.material import DTYPES, Material, make_material
from fedrt.learning.models.architectures import (
    forward_multiply_adds,
    model_code,
    model_for,
)
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.tuning import (
    BRIEF,
    CHUNKS,
    Trials,
    Tuning,
    choose,
    forms_for,
    measure,
    tune_gpu,
)
from fedrt.learning.stacked.tuning_cache import (
    cache_file,
    cache_note,
    machine,
    read_trials,
    read_tuning,
    remembered,
)
from fedrt.learning.stacked.workers import WorkerEngine
from fedrt.scenario.entries import training_paths
from fedrt.scenario.model import Scenario
from fedrt.system.plugins import offers
from fedrt.validation import problem
from fedrt.world.world import World

EngineFactory = Callable[[FlatModel, TensorSamples, Batches, Scenario], Engine]


def _sequential(
    model: FlatModel, samples: TensorSamples, batches: Batches, scenario: Scenario
) -> Engine:
    learning = scenario.learning
    return SequentialEngine(
        model,
        samples,
        batches,
        make_method(scenario),
        augment=learning.augment,
        half=learning.dtype == "bfloat16",
    )


DEFAULT_CHUNK = 4


def make_stacked(
    model: FlatModel,
    samples: TensorSamples,
    batches: Batches,
    scenario: Scenario,
    chunk: int = DEFAULT_CHUNK,
    compiled: bool = False,
    by_edge: bool = False,
    form: str = "grouped",
) -> StackedEngine:
    """A stacked engine in this process."""
    learning = scenario.learning
    return StackedEngine(
        model,
        samples,
        batches,
        make_method(scenario),
        augment=learning.augment,
        half=learning.dtype == "bfloat16",
        chunk=chunk,
        compiled=compiled,
        by_edge=by_edge,
        form=form,
    )


ENGINES: dict[str, EngineFactory] = {"stacked": make_stacked, "sequential": _sequential}


@dataclass(frozen=True)
class WorkerRecipe:
    """Makes a stacked engine in another process, where the model is built again."""

    samples: TensorSamples
    batches: Batches
    scenario: Scenario
    num_classes: int
    seed: int
    chunk: int
    form: str = "grouped"

    @property
    def copied(self) -> bool:
        """Whether the process must be a copy of this one, to have objects of Python code."""
        return bool(offers(training_paths(self.scenario)))

    @property
    def whole_edges(self) -> bool:
        """Whether all models of an edge server must be there before they are aggregated."""
        return not is_linear(make_aggregator(self.scenario.learning))

    def __call__(self) -> StackedEngine:
        learning = self.scenario.learning
        what = (self.num_classes, self.seed, self.samples.integers)
        module = model_for(learning, self.samples.shape, *what)
        model = FlatModel(module, DTYPES[learning.dtype], torch.device("cpu"))
        given = (model, self.samples, self.batches, self.scenario, self.chunk)
        return make_stacked(*given, form=self.form)


@dataclass(frozen=True)
class Setup:
    """What all trainers of a world share; engine and model are working memory, not state."""

    world: World
    model: FlatModel
    samples: TensorSamples
    batches: Batches
    engine: Engine
    first_model: Tensor
    parts: Parts
    data_digest: str
    """A digest of the training and test samples."""
    notes: tuple[str, ...] = ()
    """Notes that the user should see before training."""
    held_out: Parts | None = None
    """The samples on which each device's model is evaluated; None if none are held out."""

    @cached_property
    def method(self) -> Method:
        """The optimiser, codec, aggregator and task of the scenario."""
        return make_method(self.world.scenario)

    def accuracies(self, states: Tensor) -> list[float]:
        """The first measure of several models on the test set."""
        found: list[float] = self.evaluate(states)[:, 0].tolist()
        return found

    @cached_property
    def evaluate(self) -> Evaluate:
        """The measures of several models on the test set."""
        half = self.world.scenario.learning.dtype == "bfloat16"
        here = self.engine
        if isinstance(here, Evaluates):
            return here.evaluate
        measure = make_evaluation(
            self.model,
            self.samples,
            self.method.task,
            half,
            form=here.form if isinstance(here, StackedEngine | WorkerEngine) else None,
            compiled=isinstance(here, StackedEngine) and here.compiled,
        )

        def evaluate(states: Tensor) -> FloatArray:
            with model_code(self.model.module):
                return measure(states)

        return evaluate

    @property
    def device_name(self) -> str:
        """The name of the processor or GPU that trains."""
        device = self.samples.device
        if device.type == "cuda":
            return torch.cuda.get_device_name(device)
        return "cpu"

    def close(self) -> None:
        """Close what the engine has started."""
        if isinstance(self.engine, Closes):
            self.engine.close()


def make_setup(
    world: World,
    *,
    engine: str = "sequential",
    device: str = "cpu",
    data_dir: Path | None = None,
    chunk: int | None = None,
    workers: int | None = None,
    tuning_file: Path | None = None,
) -> Setup:
    """The data, model and engine of a scenario under a seed.

    `chunk` and `workers` of the stacked engine are measured where they are not given; with a
    `tuning_file` its values are used, so that a resumed run trains exactly as before.
    """
    scenario = world.scenario
    if engine not in ENGINES:
        raise InputError(problem("engine", engine, "one of " + ", ".join([*ENGINES, "ray"])))
    material = make_material(world, find_device(device), data_dir)
    model, samples, batches = material.model, material.samples, material.batches
    first_model, notes = model.state(), material.notes
    made: Engine
    if engine == "stacked":
        notes = (*notes, *cache_note())
        tuning = find_tuning(world, material, chunk, workers, tuning_file)
        given = (model, samples, batches, scenario, tuning.chunk, tuning.compiled)
        here = make_stacked(*given, form=tuning.form)
        notes = (*notes, *(f"note: stacked training: {line}" for line in here.notes))
        made = here
        alone = _alone(scenario) if tuning.workers > 1 else ()
        notes = (*notes, *alone)
        if tuning.workers > 1 and not alone:
            classes = samples.num_classes
            seed, chunk = world.seed, tuning.chunk
            recipe = WorkerRecipe(samples, batches, scenario, classes, seed, chunk, tuning.form)
            models = first_model.repeat(world.fleet.num_edges, 1)
            made = WorkerEngine(recipe, models, tuning.workers)
    else:
        made = ENGINES[engine](model, samples, batches, scenario)
    return Setup(
        world=world,
        model=model,
        samples=samples,
        batches=batches,
        engine=made,
        first_model=first_model,
        parts=material.parts,
        held_out=material.held_out,
        data_digest=material.data_digest,
        notes=notes,
    )


def _alone(scenario: Scenario) -> tuple[str, ...]:
    """A note if training must stay in one process: where torch has a GPU, it bears no copies."""
    if not offers(training_paths(scenario)) or not torch.cuda.is_available():
        return ()
    return (
        "note: one process trains: objects of a Python program reach others only in copies of it,"
        " which torch does not bear where it has a GPU; in a module of their own they would",
    )


def find_tuning(
    world: World,
    material: Material,
    chunk: int | None,
    workers: int | None,
    file: Path | None,
    *,
    threads: int | None = None,
) -> Tuning:
    """The tuning that is given, that of the run's file, or the best by measurements here.

    `threads` are those of a process that trains alone; by default torch's own here.
    """
    scenario, devices = world.scenario, world.fleet.num_devices
    rounds, learning = scenario.rounds, scenario.learning
    samples, model = material.samples, material.model
    on_gpu = samples.device.type == "cuda"
    if on_gpu and chunk is not None and workers is not None:
        return Tuning(chunk, 1, compiled=True, form="grouped")
    steps = rounds.global_rounds * rounds.edge_rounds * rounds.local_steps * devices
    brief = not on_gpu and steps * learning.batch_size * _operations(material) < BRIEF
    models = model.state().repeat(world.fleet.num_edges, 1)
    job = (learning.model, samples.shape, learning.batch_size, learning.dtype, learning.augment)
    number = devices if on_gpu else min(devices, CHUNKS[-1])
    key = repr((job, number, brief, str(samples.device), machine()))

    def make(form: str, size: int) -> StackedEngine:
        return make_stacked(model, samples, material.batches, scenario, size, form=form)

    def trials() -> Trials:
        try:
            return measure(make, models, devices, forms_for(model.module, brief=brief))
        finally:
            # Trials of the module itself have trained it.
            model.load(models[0])

    def known() -> Tuning:
        if on_gpu:
            found = lambda: tune_gpu(make, models, devices)  # noqa: E731
            return remembered(cache_file(), key, found, read_tuning)
        measured = remembered(cache_file(), key, trials, read_trials)
        alone = threads or torch.get_num_threads()
        return choose(measured, devices, steps, chunk=chunk, workers=workers, threads=alone)

    found = known() if file is None else remembered(file, "tuning", known, read_tuning)
    return Tuning(chunk or found.chunk, workers or found.workers, found.compiled, found.form)


def _operations(material: Material) -> float:
    """The floating-point operations to train on one sample; infinite if not countable."""
    try:
        samples = material.samples
        given = (samples.shape, samples.integers)
        return 6.0 * forward_multiply_adds(material.model.module, *given)
    except Exception:
        # A user's module may have reasons to refuse a single sample.
        return math.inf


def find_device(name: str) -> torch.device:
    """The torch device of that name; `auto` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        first = reason(error).split(". ")[0]
        raise InputError(f"device = {name!r}: cannot be used here: {first}") from None
    return device
