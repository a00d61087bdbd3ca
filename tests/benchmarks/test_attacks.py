"""Attacks in a few rounds of digits: screening holds those that ruin plain averages."""

from __future__ import annotations

import attacks
import pytest


def settings(*more: str) -> tuple[str, ...]:
    return (*attacks.fleet_of("a cluster of 8"), attacks.DATA["Dirichlet(0.3)"], *more)


@pytest.fixture(scope="module")
def absent():
    """The run without the bad devices."""
    away = "faults.absent={kind='random',probability=1,only=[1,5]}"
    return attacks.train(settings(away), 0, 6)


@pytest.mark.parametrize("name", ["3e38", "100 x noise", "a little is enough", "inner product"])
def test_two_of_eight_change_nothing(absent, name):
    sends = f"faults.attack={{{attacks.ATTACKS[name]},devices=[1,5]}}"
    found = attacks.train(settings(sends), 0, 6)
    assert set(found["refused"]) == {"1", "5"}
    assert found["accuracy"] == pytest.approx(absent["accuracy"], abs=0.5)
    unscreened = attacks.train(settings(sends, "learning.screening=false"), 0, 6)
    if name in ("3e38", "100 x noise"):
        assert unscreened["accuracy"] < absent["accuracy"] - 30


def test_a_claim_of_samples_does_not_take_a_cluster_over(absent):
    name = "random model, 1e9 samples"
    sends = f"faults.attack={{{attacks.ATTACKS[name]},devices=[1,5]}}"
    given = settings(sends, "learning.averaging=samples")
    found = attacks.train(given, 0, 6)
    assert set(found["refused"]) == {"1", "5"}
    assert found["accuracy"] > absent["accuracy"] - 3
    assert attacks.train((*given, "learning.screening=false"), 0, 6)["accuracy"] < 30


@pytest.mark.parametrize("kind", ["Dirichlet(1)", "Dirichlet(0.3)"])
def test_flipped_signs_on_uneven_data_change_little(kind):
    home = (*attacks.fleet_of("a cluster of 8"), attacks.DATA[kind])
    away = "faults.absent={kind='random',probability=1,only=[1,5]}"
    sends = "faults.attack={kind='sign-flip',devices=[1,5]}"
    absent = attacks.train((*home, away), 1, 30)["accuracy"]
    found = attacks.train((*home, sends), 1, 30)
    assert set(found["refused"]) == {"1", "5"}
    assert found["accuracy"] > absent - 3


def test_nobody_honest_is_refused():
    assert attacks.train(settings(), 0, 6)["refused"] == {}
