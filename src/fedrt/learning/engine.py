"""What an engine does: carries out the training part of a plan. It knows no seconds or joules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import FedrtError

if TYPE_CHECKING:
    from fedrt.learning.screening import Screening

IntArray = NDArray[np.int64]


class DivergedError(FedrtError):
    """Training left the finite numbers."""

    exit_code = 4


@dataclass(frozen=True)
class TrainingOrder:
    """One edge round of training: who trains, for how long, and what each one's model counts."""

    t: int
    r: int
    devices: IntArray
    """Their numbers in the fleet, ordered by edge."""
    edge_of_device: IntArray
    local_steps: IntArray
    weight: NDArray[np.float64]
    """Shares in the edge's average; they add up to 1 within each edge."""
    then: tuple[int, int] | None = None
    """The (t, r) of the order that follows, if one does: its batches may be drawn meanwhile."""
    screening: Screening | None = None
    """How updates are looked at before they count; None: they are averaged as they come."""
    attackers: NDArray[np.bool_] | None = None
    """Per device, where some send something else than they trained."""


@dataclass(frozen=True)
class Trained:
    """What an edge round gave."""

    models: Tensor
    """C x P, one row per edge; an edge that nobody trained for keeps its model."""
    loss_sum: NDArray[np.float64]
    """Per device of the order: the sum of its mini-batch losses."""
    refused: IntArray | None = None
    """Per device of the order: why its update was refused (`turns.REASONS`), -1 where it was not;
    None where none was looked at."""


class Engine(Protocol):
    """Trains all devices of an order, each from its edge's model, and averages them per edge."""

    @property
    def name(self) -> str: ...

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        """The edge models after one edge round; `models` itself stays as it is."""
        ...


def part_of(order: TrainingOrder, part: slice) -> TrainingOrder:
    """The order for a run of its devices."""
    return replace(
        order,
        devices=order.devices[part],
        edge_of_device=order.edge_of_device[part],
        local_steps=order.local_steps[part],
        weight=order.weight[part],
        attackers=None if order.attackers is None else order.attackers[part],
    )


def edge_starts(edge_of_device: IntArray) -> list[int]:
    """Where the devices of each edge begin that has any."""
    starts: list[int] = np.flatnonzero(np.diff(edge_of_device, prepend=-1)).tolist()
    return starts


@runtime_checkable
class Evaluates(Protocol):
    """An engine that evaluates models where it trains them."""

    def accuracies(self, states: Tensor) -> list[float]:
        """The accuracy of each state on the test set."""
        ...


@runtime_checkable
class Closes(Protocol):
    """An engine that has started something it must end."""

    def close(self) -> None:
        """End it."""
        ...


def check_finite(
    loss_sum: NDArray[np.float64], greatest: NDArray[np.float64], order: TrainingOrder
) -> None:
    """Stop where a loss, or the greatest number of a trained model, is not finite; name the first.

    The model is looked at too: its last step may leave the finite numbers after the last loss.
    """
    bad = np.flatnonzero(~(np.isfinite(loss_sum) & np.isfinite(greatest)))
    if bad.size:
        n = int(bad[0])
        others = f" and {bad.size - 1} more" if bad.size > 1 else ""
        lost = not np.isfinite(loss_sum[n])
        what, value = ("loss", loss_sum[n]) if lost else ("model", greatest[n])
        raise DivergedError(
            f"global round {order.t}, edge round {order.r}: the {what} of device {order.devices[n]}"
            f" on edge {order.edge_of_device[n]}{others} is {value}; try a lower"
            " learning.learning_rate, or look at that device's data"
        )


@contextmanager
def own_randomness(device: torch.device) -> Iterator[torch.Generator]:
    """The generator that modules such as dropout draw from; put back as it was afterwards."""
    if device.type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield torch.default_generator
        return
    with torch.cuda.device(device), torch.random.fork_rng(devices=[device]):
        yield torch.cuda.default_generators[torch.cuda.current_device()]


def trained(
    models: Tensor,
    total: Tensor,
    order: TrainingOrder,
    loss_sum: NDArray[np.float64],
    told: NDArray[np.float64],
) -> Trained:
    """What an edge round gave, from its edges' averages and what is told of each device.

    That is the greatest number in its model, looked at here; or why its update was refused.
    """
    if order.screening is None:
        check_finite(loss_sum, told, order)
        return Trained(averaged(models, total, order), loss_sum)
    return Trained(averaged(models, total, order), loss_sum, told.astype(np.int64))


def averaged(models: Tensor, total: Tensor, order: TrainingOrder) -> Tensor:
    """The edge models with the rows of trained edges replaced by their averages."""
    trained = torch.as_tensor(np.unique(order.edge_of_device), device=models.device)
    result = models.clone()
    result[trained] = total[trained].to(models.dtype)
    return result
