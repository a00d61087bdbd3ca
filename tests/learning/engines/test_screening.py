"""Updates that nobody vouches for: who is refused, what is averaged, the same in every engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support.learning_cases import Case, engine_case

from fedrt.learning.aggregators import Mean, Median, TrimmedMean
from fedrt.learning.aggregators.trimmed_mean import COLUMNS, trimmed_mean
from fedrt.learning.engines.attacks import attacked
from fedrt.learning.engines.engine import ACCEPTED, DivergedError, Screening, edge_starts
from fedrt.learning.engines.screening import edge_groups, judged
from fedrt.learning.stacked.workers import WorkerEngine, split_order
from fedrt.rounds import REASONS
from fedrt.scenario.faults import Noise, NotANumber, SignFlip, WrongShape

pytestmark = pytest.mark.numerical

ATTACKS = {
    "flip": SignFlip(share=1.0, scale=2.0),
    "noise": Noise(share=1.0, scale=3.0),
    "nan": NotANumber(share=1.0),
    "shape": WrongShape(share=1.0),
}


def why(reasons) -> list[str]:
    return ["" if reason == ACCEPTED else REASONS[reason] for reason in reasons]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_trimmed_mean_and_median_are_numpys(count):
    rows = np.random.default_rng(count).normal(size=(count, 7))
    middle = trimmed_mean(torch.as_tensor(rows), (count - 1) // 2)
    assert_allclose(middle, np.median(rows, axis=0), rtol=1e-15)
    cut = int(0.25 * count)
    kept = np.sort(rows, axis=0)[cut : count - cut]
    assert_allclose(trimmed_mean(torch.as_tensor(rows), cut), kept.mean(0), rtol=1e-14)


def test_blocks_of_columns_change_nothing():
    rows = torch.randn(5, COLUMNS + 3, generator=torch.Generator().manual_seed(0))
    wanted = rows.sort(dim=0).values[1:4].double().mean(0)
    assert torch.equal(trimmed_mean(rows, 1), wanted)


def test_a_few_wrong_values_move_a_trimmed_mean_little_and_a_mean_much():
    rows = torch.zeros(9, 4, dtype=torch.float64)
    rows[:7] = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    rows[7:] = 1e6
    assert trimmed_mean(rows, 2).abs().max() <= 1
    assert trimmed_mean(rows, 4).abs().max() <= 1
    assert Mean().aggregate(rows[0], rows, np.full(9, 1 / 9)).min() > 1e5


def test_who_is_refused():
    """Norms of the change: 3, 4, 5, 41 (over 10 x the median 4.5), NaN, inf, and a short one."""
    model = torch.ones(5)
    sent = [model.clone() for _ in range(7)]
    for n, norm in enumerate((3.0, 4.0, 5.0, 45.1)):
        sent[n][n % 4] += norm
    sent[0][4] = 1e9  # A buffer: its size says nothing.
    sent[4][1], sent[5][4] = torch.nan, -torch.inf
    sent[6] = sent[6][:4]
    found = judged(model, sent, 4, 10.0)
    assert why(found.refused) == ["", "", "", REASONS[2], REASONS[0], REASONS[0], REASONS[1]]
    assert why(judged(model, sent[:4], 4, 10.1).refused)[3] == ""
    assert found.norm[:4] == pytest.approx([3.0, 4.0, 5.0, 45.1])


def test_what_attackers_send():
    model, row = torch.zeros(6, dtype=torch.float64), torch.arange(6, dtype=torch.float64)
    send = partial(attacked, model, row, num_parameters=4, seed=5)
    assert send(ATTACKS["flip"], key=(0, 0, 1)).tolist() == [0, -2, -4, -6, 4, 5]
    noise = send(ATTACKS["noise"], key=(0, 0, 1))
    assert float(noise[:4].norm()) == pytest.approx(3 * np.sqrt(1 + 4 + 9))
    assert noise[4:].tolist() == [4, 5]
    assert torch.equal(noise, send(ATTACKS["noise"], key=(0, 0, 1)))
    for key in ((1, 0, 1), (0, 1, 1), (0, 0, 2)):
        assert not torch.equal(noise, send(ATTACKS["noise"], key=key))
    assert send(ATTACKS["nan"], key=(0, 0, 1)).isnan().all()
    assert send(ATTACKS["shape"], key=(0, 0, 1)).shape == (5,)
    assert row.tolist() == [0, 1, 2, 3, 4, 5]


def test_groups_are_whole_edges():
    edges = np.array([0, 0, 1, 1, 1, 3, 3, 7])
    assert edge_starts(edges) == [0, 2, 5, 7]
    sizes = [[s.stop - s.start for s in group] for group in edge_groups(edges, 4)]
    assert sizes == [[2, 3], [2, 1]]
    assert [len(group) for group in edge_groups(edges, 5)] == [2, 2]
    assert [len(group) for group in edge_groups(edges, 1)] == [1, 1, 1, 1]
    assert list(edge_groups(edges[:0], 4)) == []


@pytest.mark.parametrize("shares", [1, 2, 3, 5, 9])
def test_workers_get_whole_edges(shares):
    order = replace(engine_case().order, attackers=np.arange(7) % 2 == 0)
    parts = split_order(order, shares, whole_edges=True)
    assert len(parts) == shares
    assert np.concatenate([part.devices for _, part in parts]).tolist() == order.devices.tolist()
    for place, part in parts:
        assert_array_equal(part.attackers, order.attackers[place])
    edges = [set(part.edge_of_device.tolist()) for _, part in parts]
    assert sum(len(each) for each in edges) == 3


AGGREGATORS = {"mean": Mean(), "median": Median(), "trimmed-mean": TrimmedMean(0.34)}


def screened(case, average="mean", **changes):
    """The case's order with its devices looked at; device 3 of the order attacks."""
    attackers = np.arange(7) == 3
    order = replace(case.order, attackers=attackers, screening=Screening(**changes))
    return case.engine_with(average).train(case.models, order)


def by_hand(case, average="mean", trim=0.34, most_norm=None, attack=None):
    """The same from single devices' models, trained one at a time by the engine itself."""
    order, models = case.order, case.models.clone()
    for edge in np.unique(order.edge_of_device).tolist():
        rows, weights = [], []
        for n in np.flatnonzero(order.edge_of_device == edge).tolist():
            alone = replace(
                order,
                devices=order.devices[n : n + 1],
                edge_of_device=order.edge_of_device[n : n + 1],
                local_steps=order.local_steps[n : n + 1],
                weight=np.ones(1),
            )
            row = case.engine_with("mean").train(case.models, alone).models[edge]
            if n == 3 and attack is not None:
                size = case.flat.num_parameters
                row = attacked(case.models[edge], row, attack, size, 0, (3, 1, order.devices[n]))
            if row.shape != case.models[edge].shape or not row.isfinite().all():
                continue
            rows.append(row.double().numpy())
            weights.append(order.weight[n])
        stacked = np.array(rows)
        if average == "mean":
            found = np.average(stacked, axis=0, weights=weights)
        elif average == "median":
            found = np.median(stacked, axis=0)
        else:
            cut = int(trim * len(rows))
            found = np.sort(stacked, axis=0)[cut : len(rows) - cut].mean(0)
        models[edge] = torch.as_tensor(found)
    return models


CASES = {
    "looked at": {"most_norm": 1e6},
    "median": {"average": "median"},
    "trimmed": {"average": "trimmed-mean", "most_norm": 1e6},
    "flip": {"attack": ATTACKS["flip"]},
    "noise": {"attack": ATTACKS["noise"], "average": "median"},
    "nan": {"attack": ATTACKS["nan"], "most_norm": 1e6},
    "shape": {"attack": ATTACKS["shape"], "most_norm": 1e6, "average": "trimmed-mean"},
}


@dataclass(frozen=True)
class EngineForWorkers:
    """Made in a worker's own process."""

    average: str

    @property
    def whole_edges(self) -> bool:
        return self.average != "mean"

    def __call__(self):
        engine = engine_case("stacked", dtype="float64").engine
        engine.chunk, engine.method = 3, with_aggregator(engine.method, self.average)
        return engine


def with_aggregator(method, average: str):
    return replace(method, aggregator=AGGREGATORS[average])


@dataclass
class Screened(Case):
    """A case whose engine can be had with any aggregator; those in processes are started once."""

    in_processes: bool = False
    started: dict[str, WorkerEngine] = field(default_factory=dict)

    def engine_with(self, average: str):
        if not self.in_processes:
            self.engine.method = with_aggregator(self.engine.method, average)
            return self.engine
        if average not in self.started:
            self.started[average] = WorkerEngine(EngineForWorkers(average), self.models, 2)
        return self.started[average]


@pytest.fixture(scope="module", params=["sequential", "stacked", "workers"])
def case(request):
    kind = request.param
    made = engine_case("sequential" if kind == "sequential" else "stacked", dtype="float64")
    found = Screened(**vars(made), in_processes=kind == "workers")
    found.engine = found.engine_with("mean")
    yield found
    for engine in found.started.values():
        engine.close()


@pytest.mark.parametrize("average", AGGREGATORS)
def test_an_aggregator_needs_no_screening(case, average):
    """The models of an edge are all there, whoever trained them; its devices have shares."""
    order = case.order
    found = case.engine_with(average).train(case.models, order)
    wanted = by_hand(case, average)
    assert float((found.models - wanted).abs().max()) <= 1e-12 * float(
        (wanted - case.models).norm()
    )
    assert (found.refused == ACCEPTED).all()
    assert (found.devices.sent_bytes == 8 * case.models.shape[1]).all()


@pytest.mark.parametrize("name", CASES)
def test_an_engine_gives_what_single_devices_give(case, name):
    trained = screened(case, **CASES[name])
    wanted = by_hand(case, **CASES[name])
    moved = float((wanted - case.models).norm())
    assert float((trained.models - wanted).abs().max()) <= 1e-12 * moved
    refused = [n for n, reason in enumerate(trained.refused) if reason != ACCEPTED]
    assert refused == ([3] if name in ("nan", "shape") else [])
    assert torch.equal(trained.models[2], case.models[2]), "nobody trained for edge 2"


def test_without_a_refusal_it_is_the_usual_average(case):
    usual = case.engine_with("mean").train(case.models, case.order)
    looked = screened(case, most_norm=1e6)
    gap = (usual.models - looked.models).norm() / (usual.models - case.models).norm()
    # Who shares a chunk may change how sums are rounded.
    assert float(gap) <= 1e-13
    assert_allclose(usual.loss_sum, looked.loss_sum, rtol=1e-12)
    assert (usual.refused == ACCEPTED).all()


def test_an_edge_whose_updates_are_all_refused_keeps_its_model(case):
    order = replace(
        case.order,
        attackers=case.order.edge_of_device == 1,
        screening=Screening(most_norm=10.0, attack=ATTACKS["nan"]),
    )
    trained = case.engine_with("mean").train(case.models, order)
    assert torch.equal(trained.models[1], case.models[1])
    assert not torch.equal(trained.models[0], case.models[0])
    assert why(trained.refused) == ["", "", *["not finite"] * 3, "", ""]


def test_one_device_that_diverges_is_refused_and_a_whole_edge_is_an_error(case):
    """A model that is not finite to begin with cannot be trained to be: edge 1 diverges."""
    models = case.models.clone()
    models[1] = torch.nan
    order = replace(case.order, screening=Screening(most_norm=10.0))
    with pytest.raises(DivergedError, match=r"global round 3, edge round 1: .* on edge 1"):
        case.engine_with("mean").train(models, order)
    # Where nothing is refused, an attacker's NaN stops the run as any NaN does.
    with pytest.raises(DivergedError, match="the model of device 4 on edge 1 is nan"):
        screened(case, attack=ATTACKS["nan"])
