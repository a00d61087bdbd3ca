"""Single decisions of `fedrt-joint`: codecs and links chosen alternately while the end improves."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.control.allocation.shares import least_energy_j
from fedrt.control.coding.menu import make_menu
from fedrt.cost.round import global_round_time_s, price
from fedrt.ledger import GivenAllowance
from fedrt.messages import distortion
from fedrt.plan import plan_problems
from fedrt.policies.fedrt_joint import FedRTJoint
from fedrt.world.observation import Backhaul, Observation

pytestmark = pytest.mark.numerical

MODEL_BITS = 8.7e6
CODECS = ("int3", "int4", "int6", "int8")


def decision(seed: int, edges: int) -> tuple[Observation, GivenAllowance]:
    """A last edge round with a backhaul, and what servers and devices have behind them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, edges)
    count = int(sizes.sum())
    bps = np.triu(rng.uniform(1e6, 1e7, (edges, edges)), 1)
    apart = np.triu(rng.uniform(0.5, 1.5, (edges, edges)), 1)
    seen = Observation(
        model_bits=MODEL_BITS,
        local_steps=10,
        gossip_steps=4,
        edge_of_device=np.repeat(np.arange(edges), sizes),
        cycles=np.full(count, 3e9) * rng.uniform(0.5, 2, count),
        snr=10 ** rng.uniform(0, 1.5, count),
        tx_power_w=np.full(count, 0.1),
        capacitance=2e-28 * rng.uniform(0.1, 1, count),
        cpu_min_hz=np.full(count, 0.5e9),
        cpu_max_hz=np.full(count, 3e9),
        edge_bandwidth_hz=rng.uniform(0.5e6, 1e6, edges),
        backhaul=Backhaul(bps + bps.T, apart + apart.T, 0.6 * apart.max()),
        menu=make_menu(CODECS, 0.5 * distortion("int4"), MODEL_BITS, 0.0, "state"),
    )
    allowance_j = least_energy_j(seen) * rng.uniform(1.1, 3, count)
    return seen, GivenAllowance(allowance_j, rng.uniform(0, 10, edges))


def end_s(plan, seen: Observation, books: GivenAllowance) -> float:
    return global_round_time_s(books.elapsed_s, price(plan, seen))


@pytest.mark.parametrize("edges", [3, 4])
def test_a_decision_ends_no_later_than_one_codec_for_all_and_mostly_earlier(edges):
    gains = []
    for seed in range(10):
        seen, books = decision(seed, edges)
        plan = FedRTJoint().plan(seen, books)
        uniform = FedRTJoint(bits="one").plan(seen, books)
        assert plan_problems(plan, seen) == []
        assert (price(plan, seen).energy_j <= books.allowance * (1 + 1e-9)).all()
        assert seen.menu.distortion[plan.codec].mean() <= seen.menu.limit * (1 + 1e-9)
        gains.append(1 - end_s(plan, seen, books) / end_s(uniform, seen, books))
    assert min(gains) >= 0
    assert np.median(gains) > 0.02


def test_links_are_chosen_anew_for_the_codecs_while_that_ends_earlier(monkeypatch):
    """The plan is the earliest of all that were tried, and the search ends with the first later."""
    several = 0
    for seed in range(15):
        seen, books = decision(seed, 4)
        tried_s = []
        at_once = FedRTJoint.__mro__[1]._at_once

        def remembering(self, seen, books, at_once=at_once, tried_s=tried_s):
            plan = at_once(self, seen, books)
            tried_s.append(end_s(plan, seen, books))
            return plan

        with monkeypatch.context() as patch:
            patch.setattr(FedRTJoint.__mro__[1], "_at_once", remembering)
            plan = FedRTJoint().plan(seen, books)
        assert end_s(plan, seen, books) == pytest.approx(min(tried_s), rel=1e-9)
        assert tried_s[:-1] == sorted(tried_s[:-1], reverse=True)
        several += len(tried_s) > 2
    assert several
