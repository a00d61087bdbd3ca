"""Screening against the cluster and against the past: who is refused, and what is remembered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learning_cases import engine_case

from fedrt.learning.aggregators.base import averaging_weights, capped_samples
from fedrt.learning.aggregators.mean import Mean
from fedrt.learning.engines.engine import DeviceResults, Screening
from fedrt.learning.engines.past import WINDOW, ScreeningPast
from fedrt.learning.engines.screening import judged
from fedrt.rounds import ACCEPTED, REASONS

SIZE = 400
RNG = np.random.default_rng(5)
MODEL = torch.as_tensor(RNG.normal(size=SIZE), dtype=torch.float32)
COMMON = RNG.normal(size=SIZE)


def updates(count: int, scale: float = 0.1) -> torch.Tensor:
    """Honest models: what all devices share, and something of their own, of equal size."""
    own = RNG.normal(size=(count, SIZE))
    change = scale * (COMMON + own) / np.sqrt(2)
    return MODEL + torch.as_tensor(change, dtype=torch.float32)


def why(rows, **past) -> list[str]:
    found = judged(MODEL, rows, SIZE, 10.0, **past)
    return ["" if each == ACCEPTED else REASONS[each] for each in found.refused]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9])
def test_no_honest_update_is_refused(count):
    past = {"past_norm": np.full(count, 2.0), "past_excess": np.zeros(count)}
    past["past_scores"] = np.full((count, WINDOW - 1), -0.7)
    assert why(updates(count)) == why(updates(count), **past) == [""] * count


@pytest.mark.parametrize("value", [3e38, -3e38])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_a_huge_update_is_refused_and_honest_ones_are_not(count, value):
    """Also in a small cluster that has no past: no update is that much larger than its model."""
    rows = updates(count + 1)
    rows[0] = value
    assert why(rows) == [REASONS[2], *[""] * count]
    rows[0] = torch.finfo(torch.float32).max
    assert why(rows[:1])[0] == REASONS[2]


def test_a_small_cluster_goes_by_its_past_alone():
    rows = updates(3)
    rows[:2] = MODEL + 20 * (rows[:2] - MODEL)
    assert why(rows, past_norm=np.full(3, 2.0)) == [REASONS[2], REASONS[2], ""]
    assert why(rows, past_norm=np.full(3, 40.0)) == ["", "", ""]
    # Four have a majority; the past counts as well.
    four = updates(4)
    four[0] = MODEL + 20 * (four[0] - MODEL)
    assert why(four, past_norm=np.full(4, 40.0))[0] == REASONS[2]
    assert set(why(four, past_norm=np.full(4, 0.01))) == {REASONS[2]}


def test_copies_are_refused():
    rows = updates(8)
    rows[5] = rows[2]
    assert why(rows) == ["", "", REASONS[3], "", "", REASONS[3], "", ""]


def test_an_update_that_undoes_the_model_is_refused():
    rows = updates(8, 0.5)
    rows[1] = torch.as_tensor(0.3 * RNG.normal(size=SIZE), dtype=torch.float32)
    assert why(rows) == ["", REASONS[5], *[""] * 6]


def test_one_that_works_against_the_others_is_refused_after_some_rounds():
    rows = updates(8)
    rows[0] = MODEL - (rows[0] - MODEL)
    past, refused = ScreeningPast(1, 8), []
    case = engine_case()
    for r in range(4):
        order = order_of(case, 8, r)
        order = past.ordered(order)
        found = judged(
            MODEL, rows, SIZE, 10.0, order.past_norm, order.past_excess, order.past_scores
        )
        refused.append([REASONS[each] for each in found.refused if each != ACCEPTED])
        blank = DeviceResults.blank(order)
        past.after(order, replace(blank, refused=found.refused, norm=found.norm, score=found.score))
    assert refused == [[REASONS[2]]] * 4 or refused[-1] == [REASONS[4]]


def order_of(case, count, r):
    """An order of one cluster."""
    return replace(
        case.order,
        r=r,
        devices=np.arange(count),
        edge_of_device=np.zeros(count, dtype=np.int64),
        local_steps=np.ones(count, dtype=np.int64),
        weight=np.full(count, 1 / count),
        state_row=np.arange(count),
        screening=Screening(10.0),
    )


def test_the_past_is_what_was_accepted_and_survives_a_restart():
    case, past = engine_case(), ScreeningPast(2, 4)
    order = past.ordered(replace(order_of(case, 4, 0), edge_of_device=np.array([0, 0, 0, 1])))
    assert np.isnan(order.past_norm).all()
    blank = DeviceResults.blank(order)
    refused = np.array([ACCEPTED, ACCEPTED, 2, ACCEPTED])
    results = replace(
        blank,
        refused=refused,
        norm=np.array([1.0, 3.0, 1e9, 5.0]),
        score=np.array([0.1, 0.5, 0.2, np.nan]),
    )
    past.after(order, results)
    again = ScreeningPast(2, 4)
    again.restore(past.state())
    seen = again.ordered(order)
    assert seen.past_norm == pytest.approx([2.0, 2.0, 2.0, 5.0])
    assert seen.past_excess == pytest.approx([0.3, 0.3, 0.3, 0.0])
    assert seen.past_scores[:, -1] == pytest.approx([0.1, 0.5, 0.2, np.nan], nan_ok=True)
    for _ in range(WINDOW):
        past.after(order, results)
    assert np.isfinite(past.norms).all()


def test_a_claim_of_samples_is_capped():
    edge, samples = np.array([0, 0, 0, 0, 1, 1]), np.array([10, 20, 30, 10**9, 10**9, 7])
    assert capped_samples(edge, samples).tolist() == [10, 20, 30, 40, 14, 7]
    share = averaging_weights(edge, Mean(by_samples=True), samples, capped=True)
    assert share == pytest.approx([0.1, 0.2, 0.3, 0.4, 2 / 3, 1 / 3])
    assert averaging_weights(edge, Mean(by_samples=True), samples)[3] > 0.99
