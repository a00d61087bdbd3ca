"""Everything that training on a cluster needs, made from a scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedrt.errors import InputError
from fedrt.learning.material import Material, make_material
from fedrt.learning.setup import Setup, find_tuning
from fedrt.learning.stacked.stack import StackedModule
from fedrt.scenario.entries import training_paths
from fedrt.system.extras import MissingLibraryError
from fedrt.system.plugins import offers, own_folder
from fedrt.validation import problem
from fedrt.world.world import World

if TYPE_CHECKING:
    from fedrt.distributed.worker import Recipe
    from fedrt.learning.stacked.tuning import Tuning


def make_ray_setup(
    world: World,
    *,
    address: str | None = None,
    device: str = "auto",
    data_dir: Path | None = None,
    chunk: int | None = None,
    workers: int | None = None,
    tuning_file: Path | None = None,
) -> Setup:
    """The data, model and engine of a scenario under a seed, with training on a cluster.

    `device` is what a worker trains on, one each; without a number of workers there is one for each
    that the cluster has, but no more than edges. The driver itself needs no GPU.
    """
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MissingLibraryError("`engine` ray", "ray") from None
    from fedrt.distributed.cluster import capacity, connect
    from fedrt.distributed.engine_ray import RayEngine
    from fedrt.distributed.pool import Pool

    if device not in ("auto", "cpu", "cuda"):
        raise InputError(problem("device", device, "auto, cpu or cuda for the ray engine"))
    cluster = connect(address, workers)
    try:
        gpus = capacity("GPU") if device != "cpu" else 0
        if device == "cuda" and not gpus:
            raise InputError("device = 'cuda': the cluster has no GPU")
        count = workers or min(gpus or capacity("CPU"), world.fleet.num_edges)
        material = make_material(world, torch.device("cpu"), data_dir)
        tuning = find_tuning(world, material, chunk, workers or 1, tuning_file, threads=1)
        recipe = _recipe(world, material, tuning)
        pool = Pool(recipe, max(1, count), gpu=gpus > 0, own_cluster=cluster.own)
        pool.wait_for_one()
    except BaseException:
        cluster.end()
        raise
    return Setup(
        world=world,
        model=material.model,
        samples=material.samples,
        batches=material.batches,
        engine=RayEngine(pool, cluster.end),
        first_model=material.model.state(),
        parts=material.parts,
        held_out=material.held_out,
        data_digest=material.data_digest,
        notes=_notes(material),
    )


def _recipe(world: World, material: Material, tuning: Tuning) -> Recipe:
    """The data from which a worker makes its engine."""
    from fedrt.distributed.worker import Recipe, packed

    return Recipe(
        samples=packed(material.samples),
        batches=material.batches,
        scenario=world.scenario,
        num_classes=material.samples.num_classes,
        seed=world.seed,
        chunk=tuning.chunk,
        form=tuning.form,
        paths=tuple(path for path in sys.path if path),
        own_folder=own_folder(),
        objects=offers(training_paths(world.scenario)),
    )


def _notes(material: Material) -> tuple[str, ...]:
    lines = StackedModule(material.model.module).notes
    return (*material.notes, *(f"note: stacked training: {line}" for line in lines))
