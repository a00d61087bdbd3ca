"""Edge averages of updates that nobody vouches for: looked at, some refused, then averaged.

Who sends something else than it trained (an attack, to test against) sends it here, before anybody
looks. All devices of an edge have to be there before one can be judged, so engines hand over the
models of whole edges, a few edges at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.aggregate import trimmed_mean, weighted_mean
from fedrt.learning.engine import TrainingOrder, check_finite, edge_starts, part_of
from fedrt.scenario.faults import Attack, Noise, NotANumber, SignFlip, WrongShape
from fedrt.seeding import stream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ACCEPTED = -1
NOT_FINITE, WRONG_SHAPE, FAR_BEYOND = range(3)
"""Places in `fedrt.turns.REASONS`."""
FEWEST = 3
"""Updates that an edge must have for a norm to be far beyond the others."""

TrainRows = Callable[[Tensor, TrainingOrder], tuple[Tensor, FloatArray]]
"""The models that an order's devices end with, a row each, and their loss sums."""


@dataclass(frozen=True)
class Screening:
    """How an edge server treats the updates it gets."""

    average: Literal["mean", "median", "trimmed-mean"] = "mean"
    trim: float = 0.25
    """The share that a trimmed mean leaves out at each end."""
    most_norm: float | None = None
    """Refused above so many times the edge's median norm; None: nothing is refused."""
    attack: Attack | None = None
    seed: int = 0
    """Of the attackers' noise."""


def train_screened(
    train_rows: TrainRows,
    models: Tensor,
    order: TrainingOrder,
    total: Tensor,
    *,
    group: int,
    num_parameters: int,
) -> tuple[FloatArray, FloatArray]:
    """Put every edge's average into its row of `total`; an edge without any keeps its model.

    The devices' loss sums, and for each device why its update was refused, or `ACCEPTED`. Edges are
    trained together until they have `group` devices.
    """
    loss_sum = np.zeros(len(order.devices))
    refused = np.full(len(order.devices), ACCEPTED)
    for edges in edge_groups(order.edge_of_device, group):
        whole = slice(edges[0].start, edges[-1].stop)
        rows, loss_sum[whole] = train_rows(models, part_of(order, whole))
        for part in edges:
            edge = int(order.edge_of_device[part.start])
            mine = part_of(order, part)
            own = rows[part.start - whole.start : part.stop - whole.start]
            average, refused[part] = edge_average(
                models[edge], own, loss_sum[part], mine, num_parameters
            )
            total[edge] = models[edge].double() if average is None else average
    return loss_sum, refused.astype(np.float64)


def edge_groups(edge_of_device: IntArray, least: int) -> Iterator[list[slice]]:
    """The runs of each edge's devices, in groups that have `least` devices or more."""
    group: list[slice] = []
    for start, stop in pairwise([*edge_starts(edge_of_device), len(edge_of_device)]):
        group.append(slice(start, stop))
        if stop - group[0].start >= least:
            yield group
            group = []
    if group:
        yield group


def edge_average(
    model: Tensor, rows: Tensor, loss_sum: FloatArray, order: TrainingOrder, num_parameters: int
) -> tuple[Tensor | None, IntArray]:
    """What an edge makes of its devices' models, in float64, and whom it refused.

    None where it refused all. If no device at all came to a finite model by itself, training has
    diverged, and that is an error as it is without screening.
    """
    screening = order.screening
    assert screening is not None
    honest = rows.abs().amax(1).double().cpu().numpy()
    if not (np.isfinite(honest) & np.isfinite(loss_sum)).any():
        check_finite(loss_sum, honest, order)
    sent = list(rows)
    if order.attackers is not None and screening.attack is not None:
        for n in np.flatnonzero(order.attackers).tolist():
            key = (order.t, order.r, int(order.devices[n]))
            sent[n] = attacked(
                model, rows[n], screening.attack, num_parameters, screening.seed, key
            )
    reasons = np.full(len(sent), ACCEPTED)
    if screening.most_norm is not None:
        reasons = judged(model, sent, num_parameters, screening.most_norm)
        reasons[(reasons == ACCEPTED) & ~np.isfinite(loss_sum)] = NOT_FINITE
    else:
        check_finite(loss_sum, np.array([float(row.abs().max()) for row in sent]), order)
    good = np.flatnonzero(reasons == ACCEPTED)
    if not good.size:
        return None, reasons
    accepted = [sent[n] for n in good.tolist()]
    if screening.average == "mean":
        weight = order.weight[good]
        return weighted_mean(accepted, weight / weight.sum()), reasons
    count = len(accepted)
    cut = (count - 1) // 2 if screening.average == "median" else int(screening.trim * count)
    return trimmed_mean(torch.stack(accepted), cut), reasons


def judged(
    model: Tensor, sent: Sequence[Tensor], num_parameters: int, most_norm: float
) -> IntArray:
    """Why each update is refused, or `ACCEPTED`.

    The norm is that of the change in the parameters; the median is over the edge's updates that are
    finite and of the right shape, and says something from three of them on.
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
    """What an attacker sends for the model it trained; buffers stay as they are.

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
