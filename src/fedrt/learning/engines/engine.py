"""The interface of an engine, which trains the devices of an edge round.

It knows nothing of seconds or joules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import DivergedError as DivergedError
from fedrt.learning.transforms.base import UpdateKey
from fedrt.rounds import ACCEPTED
from fedrt.scenario.faults import Attack

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Screening:
    """How an edge server checks the updates it receives before it uses them."""

    most_norm: float | None = None
    """Updates with more than this many times the median norm are refused; None: none is."""
    attack: Attack | None = None
    seed: int = 0
    """The seed of the attackers' noise."""


@dataclass(frozen=True)
class TrainingOrder:
    """The training of one edge round: devices, local steps, and shares in the averages."""

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
    """How updates are screened; None: all of them are used."""
    attackers: NDArray[np.bool_] | None = None
    """For each device, whether it is an attacker; None if there are none."""
    codec_state: Tensor | None = None
    """What devices remember of earlier messages, a device in each row; None if nothing. Engines
    replace the rows of the order's devices, wherever these train."""
    state_row: IntArray | None = None
    """For each device, its row in `codec_state`."""
    codec: IntArray | None = None
    """For each device, the place of its codec in `menu`; None: all use the scenario's."""
    menu: tuple[str, ...] = ()
    """Names of shipped codecs."""
    correction: NDArray[Any] | None = None
    """What SCAFFOLD adds to the gradients of each device, one in each row; None without it."""
    past_norm: NDArray[np.float64] | None = None
    """For each device, the usual norm of the updates that its edge server has accepted; NaN before
    the first, None where updates are not screened."""
    past_excess: NDArray[np.float64] | None = None
    """For each device, how far above the median the scores lay that its edge server has accepted of
    late; 0 before the first."""
    past_scores: NDArray[np.float64] | None = None
    """For each device, its last scores (`engines.past`), one device in each row."""
    past_evidence: NDArray[np.float64] | None = None
    """For each device, the last evidence against it (`engines.past`), one device in each row."""
    past_along: NDArray[np.float64] | None = None
    """For each device, how far its last update went along the move that its edge server then made;
    NaN where either is unknown."""
    past_move: Mapping[int, NDArray[Any]] | None = None
    """How the parameters of each edge server's model changed in its last edge round."""
    seed: int = 0
    """The run's seed, from which transforms of updates draw."""

    def key(self, n: int) -> UpdateKey:
        """What the update of the n-th device is of."""
        return UpdateKey(self.seed, self.t, self.r, int(self.devices[n]))


PER_DEVICE = (
    "devices",
    "edge_of_device",
    "local_steps",
    "weight",
    "attackers",
    "state_row",
    "codec",
    "correction",
    "past_norm",
    "past_excess",
    "past_scores",
    "past_evidence",
    "past_along",
)
"""The fields of an order that have a value for each of its devices."""


@dataclass(frozen=True)
class DeviceResults:
    """The results of training for each device of an order, in its order."""

    loss_sum: FloatArray
    """The sum of its mini-batch losses."""
    largest: FloatArray
    """The greatest absolute number in the model it sent; not finite where training diverged."""
    refused: IntArray
    """Why its update was refused (`rounds.REASONS`), or `ACCEPTED`."""
    sent_bytes: IntArray
    """The length of the message with its update."""
    update_norm: FloatArray
    """The norm of its update; NaN where no shipped codec was used."""
    left_norm: FloatArray
    """The norm of what its message has left out; NaN where no shipped codec was used."""
    variate: NDArray[Any] | None = None
    """With SCAFFOLD, the mean of its gradients, one device in each row."""
    norm: FloatArray | None = None
    """The norm of the update that arrived, if it was screened; NaN where it has none."""
    score: FloatArray | None = None
    """How far the update was from the cluster's others (`engines.past`); NaN where they are few."""
    evidence: FloatArray | None = None
    """What speaks against it in this edge round (`engines.past`); NaN if its last is unknown."""
    along: FloatArray | None = None
    """How far the update went along the edge server's new move; NaN where there is none."""

    @classmethod
    def blank(cls, order: TrainingOrder) -> DeviceResults:
        """Empty results for the order's devices, to be filled in."""
        count = len(order.devices)
        return cls(
            loss_sum=np.zeros(count),
            largest=np.zeros(count),
            refused=np.full(count, ACCEPTED),
            sent_bytes=np.zeros(count, dtype=np.int64),
            update_norm=np.full(count, np.nan),
            left_norm=np.full(count, np.nan),
            variate=None if order.correction is None else np.zeros_like(order.correction),
            norm=None if order.past_norm is None else np.full(count, np.nan),
            score=None if order.past_norm is None else np.full(count, np.nan),
            evidence=None if order.past_norm is None else np.full(count, np.nan),
            along=None if order.past_norm is None else np.full(count, np.nan),
        )

    def put(self, place: slice | IntArray, found: DeviceResults) -> None:
        """Fill in the results of some devices."""
        for name, array in self._arrays().items():
            array[place] = getattr(found, name)

    def part(self, place: slice) -> DeviceResults:
        """The results of some devices."""
        return replace(self, **{name: array[place] for name, array in self._arrays().items()})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in held.items() if array is not None}


@dataclass(frozen=True)
class Trained:
    """The edge models after an edge round, and the results of each device."""

    models: Tensor
    """C x P, one row per edge server; one without training devices keeps its model."""
    devices: DeviceResults

    @property
    def loss_sum(self) -> FloatArray:
        """For each device of the order, the sum of its mini-batch losses."""
        return self.devices.loss_sum

    @property
    def refused(self) -> IntArray:
        """For each device of the order, why its update was refused, or `ACCEPTED`."""
        return self.devices.refused


class Engine(Protocol):
    """Trains all devices of an order, each from its edge's model, and averages them per edge."""

    @property
    def name(self) -> str: ...

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        """The edge models after one edge round; `models` itself stays as it is."""
        ...


def part_of(order: TrainingOrder, part: slice | IntArray) -> TrainingOrder:
    """The order restricted to some of its devices."""
    held = {name: getattr(order, name) for name in PER_DEVICE}
    mine: dict[str, Any] = {
        name: None if array is None else array[part] for name, array in held.items()
    }
    if order.past_move is not None:
        edges = np.unique(mine["edge_of_device"]).tolist()
        mine["past_move"] = {edge: order.past_move[edge] for edge in edges}
    return replace(order, **mine)


def edge_starts(edge_of_device: IntArray) -> list[int]:
    """The place of the first device of each edge server that has any."""
    starts: list[int] = np.flatnonzero(np.diff(edge_of_device, prepend=-1)).tolist()
    return starts


@runtime_checkable
class Evaluates(Protocol):
    """An engine that also evaluates models, where it trains them."""

    def evaluate(self, states: Tensor) -> FloatArray:
        """The measures of each state on the test set, models x measures."""
        ...


@runtime_checkable
class HoldsStates(Protocol):
    """An engine whose processes reach what devices remember only in memory of its own."""

    def hold_states(self, states: Tensor) -> Tensor:
        """The same states in the engine's memory, for all orders of a run."""
        ...


@runtime_checkable
class Closes(Protocol):
    """An engine that has started processes or connections, which must be closed."""

    def close(self) -> None:
        """Close what the engine has started."""
        ...


def check_finite(results: DeviceResults, order: TrainingOrder) -> None:
    """Raise an error if the loss or model of a device is not finite, naming the first.

    The model is looked at too: its last step may leave the finite numbers after the last loss.
    """
    loss_sum, largest = results.loss_sum, results.largest
    diverged = ~(np.isfinite(loss_sum) & np.isfinite(largest))
    bad = np.flatnonzero(diverged & (results.refused == ACCEPTED))
    if bad.size:
        n = int(bad[0])
        others = f" and {bad.size - 1} more" if bad.size > 1 else ""
        lost = not np.isfinite(loss_sum[n])
        what, value = ("loss", loss_sum[n]) if lost else ("model", largest[n])
        raise DivergedError(
            f"global round {order.t}, edge round {order.r}: the {what} of device {order.devices[n]}"
            f" on edge {order.edge_of_device[n]}{others} is {value}; try a lower"
            " learning.learning_rate, or look at that device's data"
        )


@contextmanager
def own_randomness(device: torch.device) -> Iterator[torch.Generator]:
    """The random generator that modules such as dropout use; restored after the block."""
    if device.type != "cuda":
        with torch.random.fork_rng(devices=[]):
            yield torch.default_generator
        return
    with torch.cuda.device(device), torch.random.fork_rng(devices=[device]):
        yield torch.cuda.default_generators[torch.cuda.current_device()]


def trained(models: Tensor, total: Tensor, order: TrainingOrder, results: DeviceResults) -> Trained:
    """The result of an edge round, from the averages of edge servers and the device results."""
    check_finite(results, order)
    return Trained(averaged(models, total, order), results)


def averaged(models: Tensor, total: Tensor, order: TrainingOrder) -> Tensor:
    """The edge models, with those of edge servers that trained replaced by the averages."""
    trained = torch.as_tensor(np.unique(order.edge_of_device), device=models.device)
    result = models.clone()
    result[trained] = total[trained].to(models.dtype)
    return result
