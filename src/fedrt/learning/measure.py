"""Measuring what a model needs: bits to upload, and CPU cycles to train on a sample."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedrt.data.partitions import load_divided
from fedrt.learning.models.architectures import cycles_per_sample, model_for, parameter_count
from fedrt.scenario.fields import PerDevice
from fedrt.scenario.model import MEASURED, Scenario
from fedrt.scenario.sizes import BUFFERS, NUMBER_BITS


def measure(scenario: Scenario, data_dir: Path | None = None, seed: int = 0) -> Scenario:
    """The scenario with its `measured` settings as numbers: 32 bit for each parameter, and 3 x the
    forward multiply-adds of a sample as cycles.
    """
    learning, fleet = scenario.learning, scenario.fleet
    edge_of_device = np.zeros(fleet.num_devices, dtype=np.int64)
    dataset, _ = load_divided(learning, data_dir, edge_of_device, seed)
    shape = dataset.train_images.shape[1:]
    if len(shape) == 3:
        shape = (shape[2], *shape[:2])
    integers = dataset.train_images.dtype.kind == "i"
    model = model_for(learning, shape, dataset.num_classes, seed, integers)
    if learning.model_bits == MEASURED:
        bits = float(NUMBER_BITS * parameter_count(model))
        buffers = sum(buffer.numel() for buffer in model.buffers())
        if learning.model_buffers is None and buffers != BUFFERS.get(learning.model, 0):
            learning = replace(learning, model_buffers=buffers)
        learning = replace(learning, model_bits=bits)
    if fleet.cycles_per_sample == MEASURED:
        cycles = cycles_per_sample(model, shape, integers)
        fleet = replace(fleet, cycles_per_sample=PerDevice(cycles, cycles))
    return replace(scenario, learning=learning, fleet=fleet)
