"""The worker process on a cluster: a stacked engine with its own copy of the data."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt import __version__
from fedrt.data.batches import Batches
from fedrt.errors import InputError
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder, averaged
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.evaluate import make_evaluation
from fedrt.learning.material import DTYPES
from fedrt.learning.models.architectures import model_for
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.setup import make_stacked
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.tuning import tune_gpu
from fedrt.learning.tasks import make_task
from fedrt.scenario.model import Scenario
from fedrt.system.plugins import Offer, offer, set_own_folder

IntArray = NDArray[np.int64]

VERSIONS = (__version__, torch.__version__)


@dataclass(frozen=True)
class Recipe:
    """The data from which a worker makes its engine, as arrays that processes can share."""

    samples: dict[str, Any]
    batches: Batches
    scenario: Scenario
    num_classes: int
    seed: int
    chunk: int
    """Devices at a time on a processor; on a GPU as many as its memory takes."""
    paths: tuple[str, ...] = ()
    """Where the driver finds modules: those of a user's own model."""
    own_folder: str | None = None
    """The user's current folder."""
    versions: tuple[str, str] = VERSIONS
    form: str = "grouped"
    """The form of local steps on a processor (`learning.stacked.engine.FORMS`)."""
    objects: Mapping[str, Offer] = field(default_factory=dict)
    """What Python code has given in the place of import paths."""


@dataclass(frozen=True)
class TrainingJob:
    """The edge servers and devices to train in an edge round."""

    order: TrainingOrder
    edges: IntArray
    models: NDArray[Any] | None
    """The edge models, one per row; None if the worker still has them."""
    kept_as: int = -1
    """The key under which the worker has them."""
    keep_as: int = -1
    """The key under which to keep the result; -1: it is not kept."""
    states: NDArray[Any] | None = None
    """What the order's devices remember of their messages, in its order; None if nothing."""


class Answer(NamedTuple):
    """The result of a job."""

    models: NDArray[Any]
    """The new model of each edge server."""
    results: DeviceResults
    """The results of each device."""
    states: NDArray[Any] | None = None
    """What each device then remembers of its messages."""


class EdgeWorker:
    """Trains clusters and evaluates models, one call at a time.

    It can be lost at any time: the driver has everything that it holds.
    """

    def __init__(self) -> None:
        self.kept: dict[int, dict[int, Tensor]] = {}
        self.engine: StackedEngine | None = None

    def open(self, recipe: Recipe, device: str) -> str:
        """Make the engine; return where this worker runs."""
        where = f"{platform.node()}, process {os.getpid()}"
        if recipe.versions != VERSIONS:
            mine, theirs = (f"fedrt {a} and torch {b}" for a, b in (VERSIONS, recipe.versions))
            raise InputError(f"worker on {where}: has {mine}, the driver {theirs}")
        sys.path += [path for path in recipe.paths if path not in sys.path]
        set_own_folder(recipe.own_folder)
        offer(recipe.objects)
        if device == "cpu":
            torch.set_num_threads(1)
        self.device = torch.device(device)
        self.samples = unpacked(recipe.samples, self.device)
        learning = recipe.scenario.learning
        given = (recipe.num_classes, recipe.seed, self.samples.integers)
        module = model_for(learning, self.samples.shape, *given)
        self.model = FlatModel(module, DTYPES[learning.dtype], self.device)
        half = learning.dtype == "bfloat16"
        task = make_task(learning)
        self.measure = make_evaluation(
            self.model, self.samples, task, half, form=recipe.form, compiled=False
        )
        self.recipe = recipe
        if device == "cpu":
            self.engine = self._stacked(recipe.chunk, by_edge=True)
        return where

    def _stacked(self, chunk: int, *, compiled: bool = False, by_edge: bool = False) -> Any:
        batches, scenario = self.recipe.batches, self.recipe.scenario
        return make_stacked(
            self.model,
            self.samples,
            batches,
            scenario,
            chunk,
            compiled=compiled,
            by_edge=by_edge,
            form=self.recipe.form,
        )

    def train(self, job: TrainingJob) -> Answer:
        """Train every device of the job and aggregate for each edge server."""
        models = self._first(job)
        if self.engine is None:
            # A GPU takes as many devices at once as it can: of all edges it was given.
            make = lambda _, chunk: self._stacked(chunk)  # noqa: E731
            found = tune_gpu(make, models, len(job.order.devices))
            self.engine = self._stacked(found.chunk, compiled=found.compiled)
        total = torch.zeros(models.shape, dtype=torch.float64, device=models.device)
        order, states = job.order, None
        if job.states is not None:
            # Engines write into the states they are given.
            states = torch.from_numpy(np.array(job.states)).to(self.device)
            order = replace(order, codec_state=states, state_row=np.arange(len(order.devices)))
        results = self.engine.add_up(models, order, total)
        after = averaged(models, total, order)
        live = (job.kept_as, job.keep_as)
        self.kept = {number: rows for number, rows in self.kept.items() if number in live}
        if job.keep_as >= 0:
            rows = self.kept.setdefault(job.keep_as, {})
            rows.update(zip(job.edges.tolist(), after, strict=True))
        remembered = None if states is None else states.cpu().numpy()
        return Answer(after.cpu().numpy(), results, remembered)

    def _first(self, job: TrainingJob) -> Tensor:
        if job.models is not None:
            return as_tensor(job.models).to(self.device)
        rows = self.kept[job.kept_as]
        return torch.stack([rows[edge] for edge in job.edges.tolist()])

    def evaluate(self, states: NDArray[Any]) -> NDArray[np.float64]:
        """The measures of each state on the test set."""
        return self.measure(as_tensor(states).to(self.device))


def packed(samples: TensorSamples) -> dict[str, Any]:
    """The samples with arrays in place of tensors."""
    return {
        name: value.cpu().numpy() if isinstance(value, Tensor) else value
        for name, value in vars(samples).items()
    }


def unpacked(held: dict[str, Any], device: torch.device) -> TensorSamples:
    """The samples as tensors on a device."""
    samples = object.__new__(TensorSamples)
    for name, value in held.items():
        tensor = isinstance(value, np.ndarray)
        setattr(samples, name, as_tensor(value).to(device) if tensor else value)
    samples.device = device
    return samples


def as_tensor(array: NDArray[Any]) -> Tensor:
    """A tensor that shares the array's memory, which may be read-only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)
