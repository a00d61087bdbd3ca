"""How the stacked engine runs here: devices at a time, and processes; measured, then remembered."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedrt.errors import FedrtError, InputError
from fedrt.files import write_json
from fedrt.inputs import parse_json, read_text
from fedrt.learning.engine import TrainingOrder
from fedrt.learning.engine_stacked import StackedEngine

CHUNKS = (1, 4, 8, 16, 32, 64)
WORTH_WORKERS_S = 20.0
"""Training shorter than this does not pay for starting more processes."""
GPU_SHARE = 0.5
"""Of the GPU's free memory that a chunk may take."""


@dataclass(frozen=True)
class Tuning:
    """How many devices are trained at a time, by how many processes, and whether compiled."""

    chunk: int
    workers: int
    compiled: bool


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tune(
    make: Callable[[int], StackedEngine], models: torch.Tensor, devices: int, steps: int
) -> Tuning:
    """The quickest way to train so many devices for so many local steps in all.

    `make` gives an engine for a chunk size. On a GPU all devices go at once as far as memory
    allows; on a processor a few chunk sizes are tried for a step each.
    """
    if models.is_cuda:
        return Tuning(_chunk_in_memory(make, models, devices), 1, compiled=True)
    took = {}
    for chunk in CHUNKS:
        if chunk == 1 or chunk <= devices:
            took[chunk] = _seconds_a_step(make(chunk), models, chunk)
            if took[chunk] > 1.5 * min(took.values()):
                break
    best = min(took, key=lambda chunk: took[chunk])
    workers = cores() if took[best] * steps > WORTH_WORKERS_S else 1
    return Tuning(best, min(workers, devices), compiled=False)


def _trial(devices: int) -> TrainingOrder:
    """One step of the first few devices."""
    return TrainingOrder(
        t=0,
        r=0,
        devices=np.arange(devices),
        edge_of_device=np.zeros(devices, dtype=np.int64),
        local_steps=np.ones(devices, dtype=np.int64),
        weight=np.full(devices, 1 / devices),
    )


def _seconds_a_step(engine: StackedEngine, models: torch.Tensor, chunk: int) -> float:
    """Seconds for one local step of one device, the least of three tries after a warm-up."""
    order = _trial(chunk)
    total = torch.zeros(models.shape, dtype=torch.float64)
    # Not `train`: whether the numbers stay finite is said of the run's rounds, not of a trial.
    engine.add_trained(models, order, total)
    tries = []
    for _ in range(3):
        began = time.perf_counter()
        engine.add_trained(models, order, total)
        tries.append((time.perf_counter() - began) / chunk)
    return min(tries)


def _chunk_in_memory(
    make: Callable[[int], StackedEngine], models: torch.Tensor, devices: int
) -> int:
    """As many devices as fit a share of the GPU's memory, in chunks of equal size."""
    few = min(devices, 4)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    make(few).train(models, _trial(few))
    each = max(1, (torch.cuda.max_memory_allocated() - before) // few)
    free, _ = torch.cuda.mem_get_info()
    most = max(1, int(GPU_SHARE * free / each))
    return -(-devices // -(-devices // most))


def remembered(file: Path, key: str, measure: Callable[[], Tuning]) -> Tuning:
    """The tuning kept in a file under a key, or a measured one, which is then kept.

    A file that cannot be read or written is no reason to stop.
    """
    kept: dict[str, Any] = {}
    try:
        kept = dict(parse_json(read_text(file)))
        return _checked(Tuning(**kept[key]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):
        found = measure()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = {**kept, key: asdict(found)}
        write_json(file, whole)
    except (OSError, FedrtError):
        pass
    return found


def _checked(tuning: Tuning) -> Tuning:
    """The tuning, if its numbers are such; files may be damaged."""
    if not all(type(count) is int and count >= 1 for count in (tuning.chunk, tuning.workers)):
        raise ValueError(f"no tuning: {tuning}")
    if not isinstance(tuning.compiled, bool):
        raise ValueError(f"no tuning: {tuning}")
    return tuning


def cache_file() -> Path:
    """Where tunings of this machine are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fedrt" / "tuning.json"
