"""Tuning of the stacked engine: the form of its steps, devices at a time, and processes.

What a local step takes in every form is measured (`measure`); the choice follows from these numbers
alone (`choose`). The module itself, one device after the other as the sequential engine has it, is
among the forms: what is chosen is never slower than that in as many processes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.stacked.engine import FORMS, PLAIN, StackedEngine
from fedrt.system.machine import cores

CHUNKS = (1, 4, 8, 16, 32, 64)
FEW = 4
"""Every form is first measured with this many devices: with one, overhead may dominate."""
WORTH_GOING_ON = 0.98
"""A greater chunk must take less than this share of the time, or no still greater one is tried."""
FAR_BEHIND = 1.5
"""A form that takes this many times as long as the fastest is not tried in larger chunks."""
CLOSE = 1.25
"""Forms within this factor of the fastest are measured again, interleaved."""
LONG_S = 0.5
"""No chunk is tried that would take so long for a step."""
STEPS = 2
"""Local steps of a trial."""
START_S = 8.0
"""About what starting processes costs a run."""
BRIEF = 5e11
"""Floating-point operations of a run that takes seconds: no kernels are loaded to speed it up."""
GPU_SHARE = 0.5
"""Of the GPU's free memory that a chunk may take."""

MakeEngine = Callable[[str, int], StackedEngine]
"""Gives an engine for a form and a chunk size."""


@dataclass(frozen=True)
class Tuning:
    """How the stacked engine runs: devices at a time, processes, compiled or not, and form."""

    chunk: int
    workers: int
    compiled: bool
    form: str

    def __post_init__(self) -> None:
        whole = [type(count) is int and count >= 1 for count in (self.chunk, self.workers)]
        if not all([*whole, isinstance(self.compiled, bool), self.form in FORMS]):
            raise ValueError(f"no tuning: {self}")


@dataclass(frozen=True)
class Trial:
    """The measured time of one local step of one device."""

    form: str
    chunk: int
    threads: int
    seconds: float

    def __post_init__(self) -> None:
        whole = [type(count) is int and count >= 1 for count in (self.chunk, self.threads)]
        real = [isinstance(self.seconds, float), 0 < self.seconds < math.inf]
        if not all([*whole, *real, self.form in FORMS]):
            raise ValueError(f"no trial: {self}")


@dataclass(frozen=True)
class Trials:
    """All measurements of a model on a machine."""

    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        if not any(trial.form in PLAIN and trial.threads == 1 for trial in self.trials):
            raise ValueError("no trial of the module itself")


def forms_for(module: nn.Module, *, brief: bool) -> tuple[str, ...]:
    """The forms worth measuring: those that differ for the model."""
    if not any(isinstance(layer, nn.Conv2d) for layer in module.modules()):
        return ("plain", "grouped")
    return (*PLAIN, "grouped") if brief else FORMS


def measure(
    make: MakeEngine, models: torch.Tensor, devices: int, forms: Sequence[str] = FORMS
) -> Trials:
    """Measure a local step in every form, with chunks of growing size.

    On one thread, as processes train that are one of many; then in the form that was fastest, and
    in the module's own, on as many threads as torch has here.
    """
    threads = torch.get_num_threads()
    bench = _Bench(make, models)
    try:
        torch.set_num_threads(1)
        for form in forms:
            bench.try_chunks(form, devices)
        took = bench.took
        close = [key for key in took if took[key] <= CLOSE * min(took.values())]
        for _ in range(2 if len(close) > 1 else 0):
            for key in close:
                took[key] = min(took[key], bench.seconds(*key))
        many: dict[tuple[str, int], float] = {}
        if threads > 1:
            torch.set_num_threads(threads)
            alone = [(form, 1) for form in forms if form in PLAIN]
            stacked = [key for key in took if key[0] not in PLAIN]
            best = sorted(stacked, key=lambda key: took[key])[:1]
            many = {key: min(bench.seconds(*key) for _ in range(2)) for key in (*alone, *best)}
    finally:
        torch.set_num_threads(threads)
    found = [Trial(*key, 1, seconds) for key, seconds in took.items()]
    return Trials((*found, *(Trial(*key, threads, seconds) for key, seconds in many.items())))


class _Bench:
    """Measures local steps; engines stay warm between measurements."""

    def __init__(self, make: MakeEngine, models: torch.Tensor) -> None:
        self.make, self.models = make, models
        self.engines: dict[tuple[str, int], StackedEngine] = {}
        self.took: dict[tuple[str, int], float] = {}

    def try_chunks(self, form: str, devices: int) -> None:
        """Measure a form with chunks of growing size, until they no longer help."""
        least = math.inf
        for chunk in CHUNKS[:1] if form in PLAIN else CHUNKS:
            if chunk > max(1, devices) or (chunk > 1 and chunk * least > LONG_S):
                return
            seconds = self.took[form, chunk] = self.seconds(form, chunk)
            behind = FAR_BEHIND * min(self.took.values())
            if chunk >= FEW and seconds > min(WORTH_GOING_ON * least, behind):
                return
            least = min(least, seconds)

    def seconds(self, form: str, chunk: int) -> float:
        """The seconds of one local step of one device."""
        key = (form, chunk)
        if key not in self.engines:
            self.engines[key] = self.make(*key)
            _seconds_a_step(self.engines[key], self.models, chunk, 1)
        return _seconds_a_step(self.engines[key], self.models, chunk, STEPS)


def choose(
    measured: Trials,
    devices: int,
    steps: int,
    *,
    chunk: int | None = None,
    workers: int | None = None,
    threads: int = 1,
) -> Tuning:
    """The fastest way to train a number of devices for a number of local steps.

    One process trains on `threads`, each of several on one. A chunk that is given leaves the forms
    that have chunks, and where it was not measured, what the nearest one took counts.
    """
    trials = measured.trials
    if chunk is not None:
        trials = tuple(trial for trial in trials if trial.form not in PLAIN) or trials
        nearest = min(abs(trial.chunk - chunk) for trial in trials)
        trials = tuple(trial for trial in trials if abs(trial.chunk - chunk) == nearest)
    counts = {1, min(cores(), devices)} if workers is None else {workers}
    best = (math.inf, 1, trials[0])
    for count in sorted(counts):
        fitting = [trial for trial in trials if trial.threads == (threads if count == 1 else 1)]
        for trial in fitting or [trial for trial in trials if trial.threads == 1] or trials:
            seconds = steps * trial.seconds / count + (START_S if count > 1 else 0.0)
            best = min(best, (seconds, count, trial), key=lambda found: found[0])
    _, count, trial = best
    return Tuning(chunk or trial.chunk, count, compiled=False, form=trial.form)


def tune_gpu(make: MakeEngine, models: torch.Tensor, devices: int) -> Tuning:
    """The tuning on a GPU: all devices at once, compiled, as far as memory allows."""
    return Tuning(_chunk_in_memory(make, models, devices), 1, compiled=True, form="grouped")


def _trial(devices: int, steps: int = 1) -> TrainingOrder:
    """A few steps of the first few devices, to be timed."""
    return TrainingOrder(
        t=0,
        r=0,
        devices=np.arange(devices),
        edge_of_device=np.zeros(devices, dtype=np.int64),
        local_steps=np.full(devices, steps),
        weight=np.full(devices, 1 / devices),
    )


def _seconds_a_step(engine: StackedEngine, models: torch.Tensor, chunk: int, steps: int) -> float:
    """The seconds of one local step of one device, given those of a chunk."""
    total = torch.zeros(models.shape, dtype=torch.float64)
    order = _trial(chunk, steps)
    began = time.perf_counter()
    # Not `train`: whether the numbers stay finite is said of the run's rounds, not of a trial.
    engine.add_trained(models, order, total)
    return (time.perf_counter() - began) / (chunk * steps)


def _chunk_in_memory(make: MakeEngine, models: torch.Tensor, devices: int) -> int:
    """The number of devices that fit into a share of the GPU's memory, in equal chunks."""
    few = min(devices, 4)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    make("grouped", few).train(models, _trial(few))
    each = max(1, (torch.cuda.max_memory_allocated() - before) // few)
    free, _ = torch.cuda.mem_get_info()
    most = max(1, int(GPU_SHARE * free / each))
    return -(-devices // -(-devices // most))
