"""The stacked engine held against the sequential one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fedrt.learning.stacked.engine import StackedEngine
from support.learning_cases import Case, method

LIMITS = {"float32": 1e-5, "float64": 1e-12}
FIELDS = ("devices", "edge_of_device", "local_steps", "weight")


def stacked(case: Case, chunk: int = 3, **options) -> StackedEngine:
    """A stacked engine over what another engine was made from."""
    how = method(options.pop("learning_rate", 0.05))
    settings = {"augment": False, "chunk": chunk, **options}
    return StackedEngine(case.flat, case.samples, case.batches, how, **settings)


def gap(case: Case, one: torch.Tensor, two: torch.Tensor) -> float:
    """The worst difference over the update's norm: parameters, then buffers with counts."""
    count, found = case.flat.num_parameters, 0.0
    for part in (slice(0, count), slice(count, None)):
        moved = (one - case.models)[:, part].double().norm(dim=1)
        apart = (one - two)[:, part].double().abs()
        if apart.numel():
            assert not apart[moved == 0].any()
            found = max(found, float((apart[moved > 0].amax(1) / moved[moved > 0]).max()))
    return found


def check(case: Case, engine: StackedEngine, dtype: str, record_property, label: str, **changes):
    """Both engines on one order: models, losses, and that something was trained."""
    order = replace(case.order, **changes)
    wanted, got = case.engine.train(case.models, order), engine.train(case.models, order)
    worst = gap(case, wanted.models, got.models)
    record_property("oracle", {f"worst {label} against sequential, {dtype}": worst})
    assert worst <= LIMITS[dtype]
    np.testing.assert_allclose(got.loss_sum, wanted.loss_sum, rtol=LIMITS[dtype])
    assert not torch.equal(got.models, case.models)
