"""The data and the model of a scenario, from which any engine is made, and what these need."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedrt.data.batches import Batches
from fedrt.data.catalogue import Dataset
from fedrt.data.digest import data_digest
from fedrt.data.partitions import Parts, hold_out, load_divided
from fedrt.errors import InputError
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.models.architectures import (
    Shape,
    check_trains,
    cycles_per_sample,
    model_for,
    parameter_count,
)
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.notes import batch_note, layout_note, refuse_other_lengths, size_note
from fedrt.learning.tasks import make_task
from fedrt.scenario.classes import settings_in, with_setting
from fedrt.scenario.faults import moved_notes
from fedrt.scenario.model import MEASURED, Learning, Scenario
from fedrt.scenario.sizes import BUFFERS, NUMBER_BITS
from fedrt.scenario.tables.fields import PerDevice
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
    """Every device's training samples."""
    held_out: Parts | None
    """Those on which a device's model is evaluated; None if devices hold out nothing."""
    data_digest: str
    notes: tuple[str, ...]


def make_material(world: World, where: torch.device, data_dir: Path | None) -> Material:
    """The data and the model of a scenario under a seed, on a device."""
    learning = world.scenario.learning
    dtype = DTYPES[learning.dtype]
    dataset, parts = load_divided(learning, data_dir, world.fleet.edge_of_device, world.seed)
    if learning.augment and dataset.train_images.ndim != 4:
        raise InputError("scenario.learning.augment = true: needs images, (n, height, width, c)")
    check_labels(learning, dataset)
    samples = TensorSamples(dataset, dtype, where, learning.normalise)
    held_out, asked = None, learning.device_evaluation
    if asked is not None:
        parts, held_out = hold_out(parts, asked.held_out, world.seed)
    batches = Batches(parts, learning.batch_size, world.seed)
    given = (dataset.num_classes, world.seed, samples.integers)
    module = model_for(learning, samples.shape, *given)
    check_trains(module, learning.model, samples.shape, learning.batch_size, samples.integers)
    model = FlatModel(module, dtype, where)
    refuse_other_lengths(learning, world.model_bits, model)
    if where.type == "cpu":
        few_threads(model)
    notes = (
        *dataset.notes,
        *size_note(world.model_bits, model.num_parameters),
        *moved_notes(world.scenario),
        *layout_note(samples.shape),
        *batch_note(parts.sizes, learning.batch_size),
    )
    return Material(samples, batches, model, parts, held_out, data_digest(dataset), notes)


def few_threads(model: FlatModel) -> None:
    """Let torch use one thread for a small model, where nothing else is asked for."""
    if "OMP_NUM_THREADS" not in os.environ and model.size < SMALL_MODEL:
        # Threads cost a small model more than they bring: twice the time with two.
        torch.set_num_threads(1)


def check_labels(learning: Learning, dataset: Dataset) -> None:
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


def measure(scenario: Scenario, data_dir: Path | None = None, seed: int = 0) -> Scenario:
    """The scenario with its `measured` settings as numbers: 32 bit for each parameter, and 3 x the
    forward multiply-adds of a sample as cycles.
    """
    edge_of_device = np.zeros(scenario.fleet.num_devices, dtype=np.int64)
    dataset, _ = load_divided(scenario.learning, data_dir, edge_of_device, seed)
    shape = dataset.train_images.shape[1:]
    if len(shape) == 3:
        shape = (shape[2], *shape[:2])
    integers = dataset.train_images.dtype.kind == "i"
    return measure_for(scenario, shape, dataset.num_classes, integers, seed)


def measure_for(
    scenario: Scenario, shape: Shape, num_classes: int, integers: bool, seed: int = 0
) -> Scenario:
    """The same for samples of a shape, with so many classes."""
    learning, fleet = scenario.learning, scenario.fleet
    model = model_for(learning, shape, num_classes, seed, integers)
    if learning.model_bits == MEASURED:
        bits = float(NUMBER_BITS * parameter_count(model))
        buffers = sum(buffer.numel() for buffer in model.buffers())
        if learning.model_buffers is None and buffers != BUFFERS.get(learning.model, 0):
            learning = replace(learning, model_buffers=buffers)
        learning = replace(learning, model_bits=bits)
    if MEASURED in settings_in(fleet, "cycles_per_sample"):
        cycles = cycles_per_sample(model, shape, integers)
        each = PerDevice(cycles, cycles)
        fleet = with_setting(fleet, "cycles_per_sample", MEASURED, each)
    return replace(scenario, learning=learning, fleet=fleet)
