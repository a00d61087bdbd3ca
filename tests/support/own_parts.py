"""Engines that train with parts of a user's own."""

from __future__ import annotations

import numpy as np
import pytest
from torch import Tensor

from fedrt.learning.aggregators import averaging_weights
from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.setup import Setup, make_setup
from fedrt.learning.trainer import Trainer
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
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


def trained(engine: str, *given: str) -> Tensor:
    """What a whole run with the policy `fedrt` changes in the edge models."""
    setup = set_up(engine, *given)
    try:
        trainer = Trainer(setup)
        list(simulate_rounds(setup.world, make_policy("fedrt"), trainer))
        return trainer.models - setup.first_model
    finally:
        setup.close()
