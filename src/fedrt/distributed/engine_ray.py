"""The Ray engine: each worker trains whole clusters, and the driver holds all models.

The model of an edge server does not depend on where others train, so the number of workers, their
places and their loss change no bit. Models go to a worker for the first edge round after a mixing;
until the next one it continues from its own. The averaged models of every edge round come back: the
driver can have any share of any round done again elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedrt.distributed.pool import Pool, Worker
from fedrt.distributed.shares import Share, share_out
from fedrt.distributed.worker import Answer, TrainingJob, as_tensor
from fedrt.learning.engines.engine import (
    DeviceResults,
    FloatArray,
    Trained,
    TrainingOrder,
    check_finite,
)

SHARE_BYTES = 64 * 2**20
"""Of models that go to a worker at a time."""
PIECES = 4
"""The number of shares per worker, so that little is lost with a worker."""


@dataclass
class _Kept:
    """Which worker holds which rows of the edge models for the next edge round."""

    number: int = -1
    models: Tensor | None = None
    serial_of_edge: dict[int, int] = field(default_factory=dict)


class RayEngine:
    """An engine whose devices train in the workers of a pool; models are on the driver's CPU."""

    name = "ray"

    def __init__(self, pool: Pool, end: Callable[[], None] = lambda: None) -> None:
        self.pool, self.end = pool, end
        self.calls = 0
        self.kept = _Kept()

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        self.calls += 1
        again = order.then is not None and order.then[0] == order.t
        round_ = _Round(
            models=models,
            result=models.clone(),
            results=DeviceResults.blank(order),
            # Only for the very models that came out last; others have to be sent.
            before=self.kept if self.kept.models is models else _Kept(),
            after=_Kept(self.calls if again else -1),
            states=order.codec_state,
        )
        each = models.element_size() * models.shape[1]
        most = len(models) if self.pool.gpu else max(1, SHARE_BYTES // each)
        pieces = 1 if self.pool.gpu else PIECES
        shares = share_out(replace(order, codec_state=None), self.pool.size, pieces, most)
        self.kept = _Kept()
        self.pool.carry_out([_Training(share, round_) for share in shares])
        check_finite(round_.results, order)
        if again:
            self.kept = round_.after
            self.kept.models = round_.result
        return Trained(round_.result, round_.results)

    def evaluate(self, states: Tensor) -> FloatArray:
        """The measures of each model on the test set, evaluated by the workers."""
        each = states.element_size() * states.shape[1]
        most = max(1, SHARE_BYTES // each)
        size = min(most, -(-len(states) // (PIECES * self.pool.size)))
        found: list[FloatArray] = [np.zeros(0)] * len(states)
        starts = range(0, len(states), size)
        self.pool.carry_out(
            [
                _Evaluation(i % self.pool.size, start, states[start : start + size], found)
                for i, start in enumerate(starts)
            ]
        )
        return np.stack(found)

    def close(self) -> None:
        """End the workers, and the cluster if it was started for them."""
        self.pool.close()
        self.end()


@dataclass
class _Round:
    """An edge round that is being trained."""

    models: Tensor
    result: Tensor
    results: DeviceResults
    before: _Kept
    after: _Kept
    states: Tensor | None
    """What all devices remember of their messages; replaced when a share's answer is there."""


@dataclass
class _Training:
    """The task to train a share of an edge round."""

    share: Share
    round: _Round

    @property
    def owner(self) -> int:
        return self.share.owner

    @property
    def rows(self) -> Tensor:
        """The rows of the share's devices in the states."""
        return torch.as_tensor(self.share.order.state_row)

    def send(self, worker: Worker) -> Any:
        edges, before = self.share.edges, self.round.before
        kept = all(before.serial_of_edge.get(edge) == worker.serial for edge in edges.tolist())
        job = TrainingJob(
            order=self.share.order,
            edges=edges,
            models=None if kept else self.round.models[torch.as_tensor(edges)].numpy(),
            kept_as=before.number,
            keep_as=self.round.after.number,
            states=None if self.round.states is None else self.round.states[self.rows].numpy(),
        )
        return worker.actor.train.remote(job)

    def take(self, worker: Worker, answer: Answer) -> None:
        self.round.result[torch.as_tensor(self.share.edges)] = as_tensor(answer.models)
        self.round.results.put(self.share.place, answer.results)
        if self.round.states is not None and answer.states is not None:
            self.round.states[self.rows] = as_tensor(answer.states)
        self.round.after.serial_of_edge |= dict.fromkeys(self.share.edges.tolist(), worker.serial)


@dataclass
class _Evaluation:
    """The task to evaluate some models."""

    owner: int
    start: int
    states: Tensor
    found: list[FloatArray]

    def send(self, worker: Worker) -> Any:
        return worker.actor.evaluate.remote(self.states.numpy())

    def take(self, worker: Worker, answer: FloatArray) -> None:
        self.found[self.start : self.start + len(answer)] = list(answer)
