"""Screening: edge servers check the updates they receive, and refuse invalid ones and outliers.

An attacker (`engines.attacks`) replaces its update here, before anybody looks. All devices of an
edge server have to be there before one can be judged, so engines hand over the models of whole
edges, a few edges at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.aggregators import Aggregator, aggregated, is_linear
from fedrt.learning.aggregators.trimmed_mean import trimmed_mean
from fedrt.learning.engines.attacks import what_is_sent
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
from fedrt.learning.engines.responses import MAJORITY, along, evidence, is_against
from fedrt.rounds import ACCEPTED, ASTRAY, COPY, FAR_BEYOND, NOT_FINITE, UNDOES, WRONG_SHAPE

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROUNDING = 1e-9
MOST_LOG = 3.0
"""The greatest part of a norm in a score, either way."""
MOST_SCORE = np.array([np.inf, np.inf, 1.5, 1.4, 1.35])
"""How far a device's mean score of two, three and more edge rounds may lie above its cluster's
median."""
FEW, MORE_OF_FEW = 7, 1.5
"""In clusters of fewer devices than this, in which one changes the median, limits of scores are
multiplied by so much."""
MOST_EXCESS, TIMES_PAST = 1.35, 2.0
"""How far a score of one edge round may lie above the median, at least; and what it may be of what
the edge server has accepted of late."""
MOST_UNDONE = 0.5
"""The share of the model that an update may take away beyond what the median update does."""
SAME, MOST_COMPARED = 0.05, 256
"""Updates are copies if they are less than this share of the median distance between two updates
apart; looked for in clusters of at most so many devices."""

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
    sent = what_is_sent(model, rows, order, screening, server.num_parameters)
    reasons, largest = np.full(len(rows), ACCEPTED), results.largest
    if screening.most_norm is not None:
        past = ClusterPast.of(order)
        found = judged(model, sent, server.num_parameters, screening.most_norm, past)
        reasons = found.refused
        reasons[(reasons == ACCEPTED) & ~np.isfinite(loss_sum)] = NOT_FINITE
        if results.norm is not None:
            results = replace(results, norm=found.norm, score=found.score, evidence=found.evidence)
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
    if not math.isclose(weight.sum(), 1.0, rel_tol=ROUNDING):  # some are refused, here or before
        weight = weight / weight.sum()
    average = aggregated(server.aggregator, model, accepted, weight)
    if results.along is not None:
        size = server.num_parameters
        move = (average.to(model.dtype) - model)[:size].double()
        change = along(model, sent, move, order.local_steps)
        results = replace(results, along=change)
    return average, results


class ClusterPast(NamedTuple):
    """What an edge server remembers (`engines.past`); arrays have one value for each device."""

    norm: FloatArray | None = None
    excess: FloatArray | None = None
    scores: FloatArray | None = None
    evidence: FloatArray | None = None
    along: FloatArray | None = None
    move: NDArray[Any] | None = None
    """How its model's parameters changed in its last edge round."""
    local_steps: IntArray | None = None

    @staticmethod
    def of(order: TrainingOrder) -> ClusterPast:
        """What the edge server of an order's devices remembers."""
        if order.past_norm is None:
            return ClusterPast()
        move = (order.past_move or {}).get(int(order.edge_of_device[0]))
        seen = (order.past_norm, order.past_excess, order.past_scores, order.past_evidence)
        return ClusterPast(*seen, order.past_along, move, order.local_steps)


class Judgement(NamedTuple):
    """What screening finds of a cluster's updates; arrays have one value for each."""

    refused: IntArray
    """Why an update is refused, or `ACCEPTED`."""
    norm: FloatArray
    """The norm of the change in the parameters; NaN where an update has none."""
    score: FloatArray
    """How far it is from the others in this edge round; NaN where they are too few."""
    evidence: FloatArray
    """What speaks against it in this edge round; NaN where its last update is unknown."""


def judged(
    model: Tensor,
    sent: Tensor | Sequence[Tensor],
    num_parameters: int,
    most_norm: float,
    past: ClusterPast | None = None,
) -> Judgement:
    """Which updates of a cluster are refused, and why; docs/faults.md states the rules."""
    count = len(sent)
    past = past or ClusterPast()
    found = Judgement(np.full(count, ACCEPTED), *(np.full(count, np.nan) for _ in range(3)))
    reasons, start = found.refused, model[:num_parameters].double()
    for n, row in enumerate(sent):
        if row.shape != model.shape:
            reasons[n] = WRONG_SHAPE
        elif not bool(row.isfinite().all()):
            reasons[n] = NOT_FINITE
        else:
            found.norm[n] = float((row[:num_parameters].double() - start).norm())
    fine = np.flatnonzero(reasons == ACCEPTED)
    usual = np.nan if past.norm is None or not count else float(past.norm[0])
    limit = most_norm * _usual_norm(found.norm[fine], usual, float(start.norm()))
    reasons[fine[~(found.norm[fine] <= limit)]] = FAR_BEYOND
    good = np.flatnonzero(reasons == ACCEPTED)
    if good.size < MAJORITY:
        return found
    rows = sent if isinstance(sent, Tensor) and good.size == count else None
    if rows is None:
        rows = torch.stack([sent[n] for n in good.tolist()])
    rows = rows[:, :num_parameters]
    centre = trimmed_mean(rows, (good.size - 1) // 2) - start
    found.score[good] = _scores(start, rows, found.norm[good], centre)
    if past.excess is not None and past.scores is not None:
        more = MORE_OF_FEW if good.size < FEW else 1.0
        most = max(more * MOST_EXCESS, TIMES_PAST * float(past.excess[0]))
        far = found.score[good] > np.median(found.score[good]) + most
        reasons[good[far]] = FAR_BEYOND
        scores = np.column_stack([past.scores, found.score])[good]
        reasons[good[_astray(scores, more * MOST_SCORE)]] = ASTRAY
    if past.evidence is not None and past.local_steps is not None:
        if past.move is not None and past.along is not None:
            now = along(start, rows, torch.as_tensor(past.move).to(start), past.local_steps[good])
            found.evidence[good] = evidence(now - past.along[good], found.score[good])
        known = np.column_stack([past.evidence, found.evidence])[good]
        reasons[good[is_against(known)]] = ASTRAY
    reasons[good[_copies(start, rows)]] = COPY
    reasons[good[_undone(start, rows, found.norm[good]) > MOST_UNDONE]] = UNDOES
    return found


def _usual_norm(norms: FloatArray, past: float, of_model: float) -> float:
    """The norm with which updates are compared: of the cluster and of the past, the lesser.

    Fewer than four devices have no majority: there the past alone counts, and before there is any
    the greater one of the norm of the edge server's model and that of the greatest update but one.
    Nothing is known where the model is 0.
    """
    if len(norms) >= MAJORITY:
        return float(np.fmin(np.median(norms), past))
    if not np.isnan(past):
        return past
    if of_model == 0:
        return math.inf
    return max(float(np.sort(norms)[:-1].max(initial=0.0)), of_model)


def _scores(start: Tensor, rows: Tensor, norms: FloatArray, centre: Tensor) -> FloatArray:
    """The logarithm of each norm over the median, less the cosine with the median update."""
    middle, length = float(np.median(norms)), float(centre.norm())
    inner = np.array([float((row.double() - start) @ centre) for row in rows])
    product = norms * length
    cosine = np.divide(inner, product, out=np.zeros_like(inner), where=product > 0)
    if middle <= 0:
        return -cosine
    with np.errstate(divide="ignore"):
        return np.clip(np.log(norms / middle), -MOST_LOG, MOST_LOG) - cosine


def _undone(start: Tensor, rows: Tensor, norms: FloatArray) -> FloatArray:
    """The share of the edge server's model that each update takes away, less the median's.

    0 where updates are larger than the model, so that the share says little.
    """
    square = float(start @ start)
    if not np.median(norms) ** 2 < square:
        return np.zeros(len(norms))
    taken = np.array([1.0 - float(row.double() @ start) / square for row in rows])
    return taken - np.median(taken)


def _copies(start: Tensor, rows: Tensor) -> BoolArray:
    """Which updates are far nearer to another one than the cluster's updates are to each other."""
    count = len(rows)
    if count > MOST_COMPARED:
        return np.zeros(count, dtype=bool)
    updates = torch.stack([row.double() - start for row in rows])
    products = (updates @ updates.T).cpu().numpy()
    square = np.diag(products)
    apart = square[:, None] + square[None, :] - 2 * products
    usual = np.median(apart[np.triu_indices(count, 1)])
    np.fill_diagonal(apart, np.inf)
    found: BoolArray = apart.min(axis=1) < SAME**2 * usual
    return found


def _astray(scores: FloatArray, limits: FloatArray) -> BoolArray:
    """Which devices' mean scores lie far above the cluster's median, over the last edge rounds."""
    known = np.isfinite(scores)
    rounds = known.sum(axis=1)
    mean = np.where(known, scores, 0.0).sum(axis=1) / np.maximum(rounds, 1)
    most = limits[np.minimum(rounds, len(limits) - 1)]
    found: BoolArray = mean > np.median(mean) + most
    return found
