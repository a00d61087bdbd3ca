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
from fedrt.learning.engines.responses import is_against
from fedrt.learning.engines.screening import ClusterPast, EdgeServer, judge_and_average, judged
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
    found = judged(MODEL, rows, SIZE, 10.0, ClusterPast(**past))
    return ["" if each == ACCEPTED else REASONS[each] for each in found.refused]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9])
def test_no_honest_update_is_refused(count):
    past = {"norm": np.full(count, 2.0), "excess": np.zeros(count)}
    past["scores"] = np.full((count, WINDOW - 1), -0.7)
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
    assert why(rows, norm=np.full(3, 2.0)) == [REASONS[2], REASONS[2], ""]
    assert why(rows, norm=np.full(3, 40.0)) == ["", "", ""]
    # Four have a majority; the past counts as well.
    four = updates(4)
    four[0] = MODEL + 20 * (four[0] - MODEL)
    assert why(four, norm=np.full(4, 40.0))[0] == REASONS[2]
    assert set(why(four, norm=np.full(4, 0.01))) == {REASONS[2]}


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
    past, refused = ScreeningPast(1, 8, SIZE), []
    case = engine_case()
    for r in range(4):
        order = order_of(case, 8, r)
        order = past.ordered(order)
        found = judged(MODEL, rows, SIZE, 10.0, ClusterPast.of(order))
        refused.append([REASONS[each] for each in found.refused if each != ACCEPTED])
        seen = {"refused": found.refused, "norm": found.norm, "score": found.score}
        past.after(order, replace(DeviceResults.blank(order), **seen), np.zeros((1, SIZE)))
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
    case, past = engine_case(), ScreeningPast(2, 4, 3)
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
    results = replace(results, along=np.array([0.1, 0.2, 0.3, np.nan]))
    results = replace(results, evidence=np.array([-1.0, np.nan, 1.0, np.nan]))
    moves = np.arange(6.0).reshape(2, 3)
    past.after(order, results, moves)
    again = ScreeningPast(2, 4, 3)
    again.restore(past.state())
    seen = again.ordered(order)
    assert seen.past_norm == pytest.approx([2.0, 2.0, 2.0, 5.0])
    assert seen.past_excess == pytest.approx([0.3, 0.3, 0.3, 0.0])
    assert seen.past_scores[:, -1] == pytest.approx([0.1, 0.5, 0.2, np.nan], nan_ok=True)
    assert seen.past_evidence[:, -1] == pytest.approx([-1.0, np.nan, 1.0, np.nan], nan_ok=True)
    assert seen.past_along == pytest.approx([0.1, 0.2, 0.3, np.nan], nan_ok=True)
    assert {edge: list(move) for edge, move in seen.past_move.items()} == {
        0: [0, 1, 2],
        1: [3, 4, 5],
    }
    for _ in range(WINDOW):
        past.after(order, results, moves)
    assert np.isfinite(past.norms).all()


def judged_rounds(flips: int, missing: int = -1) -> list[set[int]]:
    """Who is refused in 30 edge rounds of devices with optima far apart; the first ones flip signs.

    Each goes half the way to its own optimum, which no other's update tells anything of.
    """
    case, past, found = engine_case(), ScreeningPast(1, 8, SIZE), []
    optima = torch.as_tensor(3 * np.random.default_rng(7).normal(size=(8, SIZE)))
    model, server = MODEL.clone(), EdgeServer(Mean(), SIZE)
    for r in range(30):
        order = past.ordered(order_of(case, 8, r))
        noise = torch.as_tensor(np.random.default_rng(r).normal(size=(8, SIZE)))
        update = (0.5 * (optima - model) + 0.3 * noise).float()
        update[:flips] *= -1
        blank = replace(DeviceResults.blank(order), largest=np.ones(8))
        after, seen = judge_and_average(model, model + update, blank, order, server)
        moved = after.to(model.dtype) - model
        past.after(order, seen, moved[None].numpy())
        found.append(set(np.flatnonzero(seen.refused != ACCEPTED).tolist()))
        state = past.state()
        past = ScreeningPast(1, 8, SIZE)
        past.restore(state)
        model = model + moved
    return found


def test_one_that_flips_signs_among_devices_with_nothing_in_common_is_refused():
    assert judged_rounds(0) == [set()] * 30
    for flips in (1, 2):
        found = judged_rounds(flips)
        assert set().union(*found) == set(range(flips))
        assert all(each == set(range(flips)) for each in found[3:10])


def test_evidence_of_the_last_rounds_counts_however_good_those_before_were():
    rows = np.full((3, WINDOW), -1.0)
    rows[1, -4:] = 1.0
    rows[2] = [*[np.nan] * (WINDOW - 1), 3.0]
    assert is_against(rows).tolist() == [False, True, False]


def test_a_claim_of_samples_is_capped():
    edge, samples = np.array([0, 0, 0, 0, 1, 1]), np.array([10, 20, 30, 10**9, 10**9, 7])
    assert capped_samples(edge, samples).tolist() == [10, 20, 30, 40, 14, 7]
    share = averaging_weights(edge, Mean(by_samples=True), samples, capped=True)
    assert share == pytest.approx([0.1, 0.2, 0.3, 0.4, 2 / 3, 1 / 3])
    assert averaging_weights(edge, Mean(by_samples=True), samples)[3] > 0.99
