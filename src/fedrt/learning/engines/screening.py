"""Screening: edge servers check the updates they receive, and refuse invalid ones and outliers.

Who sends something else than it trained (an attack, to test against) sends it here, before anybody
looks. All devices of an edge server have to be there before one can be judged, so engines hand over
the models of whole edges, a few edges at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.aggregators import Aggregator, aggregated, is_linear
from fedrt.learning.engines.engine import (
    DeviceResults,
    Screening,
    Trained,
    TrainingOrder,
    check_finite,
    edge_starts,
    part_of,
    trained,
)
from fedrt.rounds import ACCEPTED
from fedrt.scenario.faults import Attack, Noise, NotANumber, SignFlip, WrongShape
from fedrt.seeding import stream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NOT_FINITE, WRONG_SHAPE, FAR_BEYOND = range(3)
"""Places in `fedrt.rounds.REASONS`."""
FEWEST = 3
"""The least number of updates for which a norm can be an outlier."""

TrainRows = Callable[[Tensor, TrainingOrder], tuple[Tensor, DeviceResults]]
"""The models that an order's devices send, a row each, and what is known of each device."""
InTurn = Callable[[Tensor, TrainingOrder, DeviceResults], Iterator[tuple[int, Tensor]]]
"""Yields each device's place in the order and the model it sends; fills in the results."""


class EdgeServer(NamedTuple):
    """The screening, attacks and aggregation that edge servers carry out."""

    aggregator: Aggregator
    num_parameters: int
    """The number of parameters of a model; its other numbers are buffers."""


def needs_rows(order: TrainingOrder, aggregator: Aggregator) -> bool:
    """Whether all models of an edge server's devices must be there before they are aggregated."""
    return order.screening is not None or not is_linear(aggregator)


def train_edge_by_edge(
    train_rows: TrainRows,
    models: Tensor,
    order: TrainingOrder,
    total: Tensor,
    server: EdgeServer,
    group: int,
) -> DeviceResults:
    """Put every edge server's new model into its row of `total`.

    An edge server that refuses all updates keeps its model.

    Edges are trained together until they have `group` devices.
    """
    results = DeviceResults.blank(order)
    for edges in edge_groups(order.edge_of_device, group):
        whole = slice(edges[0].start, edges[-1].stop)
        rows, found = train_rows(models, part_of(order, whole))
        results.put(whole, found)
        for part in edges:
            edge = int(order.edge_of_device[part.start])
            own = rows[part.start - whole.start : part.stop - whole.start]
            of_edge = results.part(part)
            average, seen = judge_and_average(
                models[edge], own, of_edge, part_of(order, part), server
            )
            results.put(part, seen)
            total[edge] = models[edge].double() if average is None else average
    return results


def average_in_turn(
    in_turn: InTurn, models: Tensor, order: TrainingOrder, server: EdgeServer
) -> Trained:
    """The edge models after one edge round whose devices send one after the other."""
    total = torch.zeros(models.shape, dtype=torch.float64, device=models.device)
    if needs_rows(order, server.aggregator):
        train_rows = partial(rows_in_turn, in_turn)
        results = train_edge_by_edge(train_rows, models, order, total, server, group=1)
        return trained(models, total, order, results)
    results = DeviceResults.blank(order)
    for n, state in in_turn(models, order, results):
        total[order.edge_of_device[n]] += float(order.weight[n]) * state.double()
    return trained(models, total, order, results)


def rows_in_turn(
    in_turn: InTurn, models: Tensor, order: TrainingOrder
) -> tuple[Tensor, DeviceResults]:
    """The model that every device sends, one per row, and the device results."""
    results = DeviceResults.blank(order)
    rows = [state for _, state in in_turn(models, order, results)]
    return torch.stack(rows), results


def edge_groups(edge_of_device: IntArray, least: int) -> Iterator[list[slice]]:
    """The devices of each edge server as ranges, in groups of at least `least` devices."""
    group: list[slice] = []
    for start, stop in pairwise([*edge_starts(edge_of_device), len(edge_of_device)]):
        group.append(slice(start, stop))
        if stop - group[0].start >= least:
            yield group
            group = []
    if group:
        yield group


def judge_and_average(
    model: Tensor, rows: Tensor, results: DeviceResults, order: TrainingOrder, server: EdgeServer
) -> tuple[Tensor | None, DeviceResults]:
    """The new model of one edge server in float64, and the results with refused updates marked.

    None if it refused all. If no device trained to a finite model, training has
    diverged, and that is an error as it is without screening.
    """
    screening, loss_sum = order.screening or Screening(), results.loss_sum
    if not (np.isfinite(results.largest) & np.isfinite(loss_sum)).any():
        check_finite(results, order)
    sent = _sent(model, rows, order, screening, server.num_parameters)
    reasons, largest = np.full(len(rows), ACCEPTED), results.largest
    if screening.most_norm is not None:
        reasons = judged(model, sent, server.num_parameters, screening.most_norm)
        reasons[(reasons == ACCEPTED) & ~np.isfinite(loss_sum)] = NOT_FINITE
    elif sent is not rows:
        largest = np.array([float(row.abs().max()) for row in sent])
    results = replace(results, refused=reasons, largest=largest)
    check_finite(results, order)
    good = np.flatnonzero(reasons == ACCEPTED)
    if not good.size:
        return None, results
    accepted = rows
    if sent is not rows or good.size < len(rows):
        accepted = torch.stack([sent[n] for n in good.tolist()])
    weight = order.weight[good]
    return aggregated(server.aggregator, model, accepted, weight / weight.sum()), results


def _sent(
    model: Tensor, rows: Tensor, order: TrainingOrder, screening: Screening, num_parameters: int
) -> Tensor | list[Tensor]:
    """The models that arrive: those that were trained, or what attackers send instead."""
    if order.attackers is None or screening.attack is None or not order.attackers.any():
        return rows
    sent = list(rows)
    for n in np.flatnonzero(order.attackers).tolist():
        key = (order.t, order.r, int(order.devices[n]))
        attack, seed = screening.attack, screening.seed
        sent[n] = attacked(model, rows[n], attack, num_parameters, seed, key)
    return sent


def judged(
    model: Tensor, sent: Tensor | Sequence[Tensor], num_parameters: int, most_norm: float
) -> IntArray:
    """For each update, why it is refused, or `ACCEPTED`.

    The norm is that of the change in the parameters; the median is over the edge's updates that are
    finite and of the right shape, and is used if there are three or more.
    """
    reasons, norms = np.full(len(sent), ACCEPTED), np.full(len(sent), np.nan)
    for n, row in enumerate(sent):
        if row.shape != model.shape:
            reasons[n] = WRONG_SHAPE
        elif not bool(row.isfinite().all()):
            reasons[n] = NOT_FINITE
        else:
            norms[n] = float((row - model)[:num_parameters].double().norm())
    fine = np.flatnonzero(reasons == ACCEPTED)
    if fine.size >= FEWEST:
        reasons[fine[norms[fine] > most_norm * np.median(norms[fine])]] = FAR_BEYOND
    return reasons


def attacked(
    model: Tensor,
    row: Tensor,
    attack: Attack,
    num_parameters: int,
    seed: int,
    key: tuple[int, int, int],
) -> Tensor:
    """The model that an attacker sends in place of the one it trained.

    Buffers stay unchanged.

    Noise is keyed by (t, r, device).
    """
    match attack:
        case NotANumber():
            return torch.full_like(row, torch.nan)
        case WrongShape():
            return row[:-1]
        case SignFlip(scale=scale):
            change = -scale * (row - model)[:num_parameters]
        case Noise(scale=scale):
            drawn = stream(seed, "attack noise", *key).standard_normal(num_parameters)
            noise = torch.as_tensor(drawn, dtype=row.dtype, device=row.device)
            size = (row - model)[:num_parameters].double().norm()
            change = noise * (scale * size / np.linalg.norm(drawn))
        case _:
            assert_never(attack)
    sent = row.clone()
    sent[:num_parameters] = model[:num_parameters] + change
    return sent
