"""The data and the model of a scenario, from which any engine is made, and notes on them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from fedrt.data.batches import Batches
from fedrt.data.catalogue import Dataset
from fedrt.data.digest import data_digest
from fedrt.data.partitions import Parts, load_divided
from fedrt.errors import InputError
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.models.architectures import check_trains, model_for
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.notes import batch_note, layout_note, refuse_other_lengths, size_note
from fedrt.learning.tasks import make_task
from fedrt.scenario.model import Learning
from fedrt.world.world import World

# What parameters are kept in; under bfloat16 only the layers' arithmetic is shorter.
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}

SMALL_MODEL = 50_000


@dataclass(frozen=True)
class Material:
    """The data and model from which any engine of a world is made."""

    samples: TensorSamples
    batches: Batches
    model: FlatModel
    parts: Parts
    data_digest: str
    notes: tuple[str, ...]


def make_material(world: World, where: torch.device, data_dir: Path | None) -> Material:
    """The data and the model of a scenario under a seed, on a device."""
    learning = world.scenario.learning
    dtype = DTYPES[learning.dtype]
    dataset, parts = load_divided(learning, data_dir, world.fleet.edge_of_device, world.seed)
    if learning.augment and dataset.train_images.ndim != 4:
        raise InputError("scenario.learning.augment = true: needs images, (n, height, width, c)")
    _check_labels(learning, dataset)
    samples = TensorSamples(dataset, dtype, where, learning.normalise)
    batches = Batches(parts, learning.batch_size, world.seed)
    given = (dataset.num_classes, world.seed, samples.integers)
    module = model_for(learning, samples.shape, *given)
    check_trains(module, learning.model, samples.shape, learning.batch_size, samples.integers)
    model = FlatModel(module, dtype, where)
    refuse_other_lengths(learning, world.model_bits, model)
    if where.type == "cpu" and "OMP_NUM_THREADS" not in os.environ and model.size < SMALL_MODEL:
        # Threads cost a small model more than they bring: twice the time with two.
        torch.set_num_threads(1)
    notes = (
        *dataset.notes,
        *size_note(world.model_bits, model.num_parameters),
        *layout_note(samples.shape),
        *batch_note(parts.sizes, learning.batch_size),
    )
    return Material(samples, batches, model, parts, data_digest(dataset), notes)


def _check_labels(learning: Learning, dataset: Dataset) -> None:
    """Raise an error about labels, of training or test samples, that do not fit the task."""
    task = make_task(learning)
    for labels, inputs in (
        (dataset.train_labels, dataset.train_images),
        (dataset.test_labels, dataset.test_images),
    ):
        needed = task.label_problem(labels, inputs)
        if needed is not None:
            got = f"{labels.dtype} of shape {labels.shape[1:]}, inputs {inputs.dtype}"
            got += f" of {inputs.shape[1:]}"
            raise InputError(f"scenario.learning.task: needs {needed}; its labels are {got}")
