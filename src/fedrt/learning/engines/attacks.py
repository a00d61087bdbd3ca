"""Attacks: what Byzantine devices send in place of the models that they trained."""

from __future__ import annotations

from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.engines.engine import Screening, TrainingOrder
from fedrt.scenario.faults import (
    Attack,
    Huge,
    InnerProduct,
    LittleIsEnough,
    Noise,
    NotANumber,
    RandomModel,
    SignFlip,
    WrongShape,
)
from fedrt.seeding import stream

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


def what_is_sent(
    model: Tensor, rows: Tensor, order: TrainingOrder, screening: Screening, num_parameters: int
) -> Tensor | list[Tensor]:
    """The models that arrive: those that were trained, or what attackers send instead.

    Attackers that need it know what all others of their cluster send.
    """
    attack, attackers = screening.attack, order.attackers
    if attackers is None or attack is None or not attackers.any() or order.t < attack.first_round:
        return rows
    others = attackers if attackers.all() else ~attackers
    sent, honest = list(rows), rows[torch.as_tensor(others, device=rows.device)]
    for n in np.flatnonzero(attackers).tolist():
        key = (order.t, order.r, int(order.devices[n]))
        sent[n] = attacked(model, rows[n], attack, num_parameters, screening.seed, key, honest)
    return sent


def claimed_samples(
    samples: IntArray, screening: Screening | None, attackers: BoolArray | None, t: int
) -> IntArray:
    """The numbers of samples that devices say they have, which attackers may make up."""
    attack = None if screening is None else screening.attack
    if attackers is None or not isinstance(attack, RandomModel) or t < attack.first_round:
        return samples
    return np.where(attackers, attack.samples, samples)


def attacked(
    model: Tensor,
    row: Tensor,
    attack: Attack,
    num_parameters: int,
    seed: int,
    key: tuple[int, int, int],
    honest: Tensor | None = None,
) -> Tensor:
    """The model that an attacker sends in place of the one it trained.

    Buffers stay unchanged. `honest` has the models of the cluster's other devices.

    Noise is keyed by (t, r, device).
    """
    size, others = num_parameters, row[None] if honest is None else honest
    trained = (row - model)[:size]
    match attack:
        case NotANumber():
            return torch.full_like(row, torch.nan)
        case WrongShape():
            return row[:-1]
        case SignFlip(scale=scale):
            change = -scale * trained
        case Huge(value=value):
            change = torch.full_like(trained, value)
        case Noise(scale=scale):
            change = _noise(seed, key, trained, scale * trained.double().norm())
        case RandomModel(scale=scale):
            change = _noise(seed, key, trained, scale * model[:size].double().norm()) - model[:size]
        case LittleIsEnough(deviations=deviations):
            change = (others - model)[:, :size].double()
            spread = change.std(0, correction=0) * deviations
            change = (change.mean(0) - spread).to(row.dtype)
        case InnerProduct(scale=scale):
            change = (-scale * (others - model)[:, :size].double().mean(0)).to(row.dtype)
        case _:
            assert_never(attack)
    sent = row.clone()
    sent[:size] = model[:size] + change
    return sent


def _noise(seed: int, key: tuple[int, int, int], like: Tensor, norm: Tensor) -> Tensor:
    """Gaussian noise of a norm."""
    drawn = stream(seed, "attack noise", *key).standard_normal(len(like))
    noise = torch.as_tensor(drawn, dtype=like.dtype, device=like.device)
    return noise * (norm / float(np.linalg.norm(drawn)))
