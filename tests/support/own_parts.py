"""Engines that train with parts of a user's own."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.learning.aggregators import averaging_weights
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.setup import Setup, make_setup
from fedrt.world.simulated import SimulatedWorld
from support.learning_cases import small

ENGINES = ["sequential", "stacked", "workers", pytest.param("ray", marks=pytest.mark.slow)]
SMOOTH = ('learning.dtype="float64"', 'learning.model="smooth-cnn"')


def set_up(engine: str, *given: str) -> Setup:
    world = SimulatedWorld(small(*SMOOTH, *given), 0)
    if engine == "ray":
        from fedrt.distributed.setup import make_ray_setup

        return make_ray_setup(world, chunk=2, workers=2, device="cpu")
    workers = 2 if engine == "workers" else 1
    name = "stacked" if engine == "workers" else engine
    return make_setup(world, engine=name, chunk=2, workers=workers)


def order_of(setup: Setup) -> TrainingOrder:
    fleet = setup.world.fleet
    return TrainingOrder(
        t=0,
        r=0,
        devices=np.arange(fleet.num_devices),
        edge_of_device=fleet.edge_of_device,
        local_steps=1 + np.arange(fleet.num_devices) % 3,
        weight=averaging_weights(
            fleet.edge_of_device, setup.method.aggregator, setup.batches.sizes
        ),
    )
