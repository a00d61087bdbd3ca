"""Evaluation of models on every device's own held-out samples.

Of the edge servers' models, as devices get them, and of what each device makes of its server's
model by a few local steps of its own (personalisation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.data.partitions import Parts
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.evaluate import BATCH
from fedrt.learning.models.architectures import model_code
from fedrt.learning.setup import DEFAULT_CHUNK, Setup
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.workers import WorkerEngine
from fedrt.learning.tasks import measured
from fedrt.measures import Measure
from fedrt.scenario.methods import DeviceEvaluation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WORST = 0.1
"""The share of devices whose mean is reported as that of the worst."""
TOGETHER = 64
"""Devices whose own models are held at a time."""


def devices_of(setup: Setup) -> OnDevices | None:
    """The evaluation on devices that a scenario asks for; None if it does not."""
    asked = setup.world.scenario.learning.device_evaluation
    if asked is None or setup.held_out is None:
        return None
    return OnDevices(setup, setup.held_out, asked)


class OnDevices:
    """Evaluates edge models, and those tuned by devices, on devices' own held-out samples."""

    def __init__(self, setup: Setup, held_out: Parts, asked: DeviceEvaluation) -> None:
        self.setup, self.held_out, self.steps = setup, held_out, asked.tuning_steps
        self.measure = setup.method.task.measures[0]
        self.who = np.flatnonzero(held_out.sizes)
        self.edge = setup.world.fleet.edge_of_device[self.who]
        self.half = setup.world.scenario.learning.dtype == "bfloat16"
        self.engine = _engine(setup) if self.steps else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is reported: mean, deviation and worst tenth, tuned or not."""
        kinds = ("device", "tuned") if self.steps else ("device",)
        return tuple(
            f"{k}_{self.measure.name}_{x}" for k in kinds for x in ("mean", "std", "worst")
        )

    def evaluate(self, t: int, models: Tensor) -> list[float]:
        """What is reported after global round t, where edge servers hold these models."""
        with model_code(self.setup.model.module):
            values = np.zeros(len(self.who))
            for edge in np.unique(self.edge):
                mine = np.flatnonzero(self.edge == edge)
                values[mine] = self._values(models[int(edge)], self.who[mine])
            found = spread_of(values, self.measure)
            if self.engine is not None:
                tuned = [self._values(row, who)[0] for who, row in self._tuned(t, models)]
                found += spread_of(np.array(tuned), self.measure)
        return found

    def _tuned(self, t: int, models: Tensor) -> Iterator[tuple[IntArray, Tensor]]:
        """Yield each device and its own model, after local steps from its edge server's.

        Mini-batches are drawn as in one more edge round after the last.
        """
        assert self.engine is not None
        rounds = self.setup.world.scenario.rounds
        for start in range(0, len(self.who), TOGETHER):
            who, edge = self.who[start:][:TOGETHER], self.edge[start:][:TOGETHER]
            order = TrainingOrder(
                t=t,
                r=rounds.edge_rounds,
                devices=who,
                edge_of_device=edge,
                local_steps=np.full(len(who), self.steps),
                weight=np.zeros(len(who)),
            )
            rows, _ = self.engine.train_rows(models, order)
            yield from zip(who[:, None], rows, strict=True)

    @torch.no_grad()
    def _values(self, state: Tensor, devices: IntArray) -> FloatArray:
        """The measure of one model on the held-out samples of some devices, each by itself."""
        model, samples, task = self.setup.model, self.setup.samples, self.setup.method.task
        model.load(state)
        model.module.eval()
        chosen = np.concatenate([self.held_out[int(device)] for device in devices])
        each = []
        for start in range(0, len(chosen), BATCH):
            part = torch.as_tensor(chosen[start : start + BATCH], device=state.device)
            inputs, labels = samples.batch(part)
            with torch.autocast(state.device.type, torch.bfloat16, enabled=self.half):
                outputs = model.module(inputs)
            each.append(task.values(outputs, labels)[0].double().cpu().numpy())
        sizes = self.held_out.sizes[devices]
        sums = np.add.reduceat(np.concatenate(each), np.cumsum(sizes) - sizes)
        found: FloatArray = measured(task, sums[:, None], sizes[:, None].astype(float))[:, 0]
        return found


def _engine(setup: Setup) -> SequentialEngine | StackedEngine:
    """An engine in this process whose devices keep what they train, as the run's own trains."""
    method = replace(setup.method, codec=None)
    learning = setup.world.scenario.learning
    parts = (setup.model, setup.samples, setup.batches, method)
    augment, half, here = learning.augment, learning.dtype == "bfloat16", setup.engine
    if isinstance(here, SequentialEngine):
        return SequentialEngine(*parts, augment=augment, half=half)
    chunk, compiled, form = DEFAULT_CHUNK, False, "grouped"
    if isinstance(here, StackedEngine):
        chunk, compiled, form = here.chunk, here.compiled, here.form
    elif isinstance(here, WorkerEngine):
        form = here.form
    return StackedEngine(
        *parts, augment=augment, half=half, chunk=chunk, compiled=compiled, form=form
    )


def spread_of(values: FloatArray, measure: Measure) -> list[float]:
    """The mean and deviation over devices, and the mean of the tenth that does worst."""
    if not len(values):
        return [math.nan] * 3
    worst = np.sort(values) if measure.higher_is_better else -np.sort(-values)
    count = math.ceil(WORST * len(values))
    return [float(values.mean()), float(values.std()), float(worst[:count].mean())]
