"""fedrt-plus in a few random worlds: no policy beats it. `make random-worlds` takes a thousand."""

from __future__ import annotations

import pytest
import random_worlds

# With stragglers, where allowing for them matters (18, 147, 264), with budgets far out of reach
# (94), and the first ones as they come.
WORLDS = {0: [18, 147, 264], 1: list(range(6)), 7: [94]}


@pytest.mark.parametrize("seed", WORLDS)
def test_no_policy_beats_it_in_a_few_random_worlds(seed):
    found = list(random_worlds.results(seed, WORLDS[seed], jobs=1))
    summary = random_worlds.summary(found)
    assert summary["refused"] == 0
    assert random_worlds.broken_claims(summary) == []


def found_with(number: int, **policies: tuple[float, float, int]) -> dict[str, object]:
    """A world's results: seconds, joules over budget and updates of each policy."""
    keys = ("time_s", "over_j", "delivered")
    own = {name.replace("_", "-"): dict(zip(keys, p, strict=True)) for name, p in policies.items()}
    return {"number": number, "world": "", "budget_j": 1e3, "policies": own}


def test_what_does_not_hold_is_said():
    even = [found_with(i, fedrt=(1.0, 0.0, 5), fedrt_plus=(1.0, 0.0, 5)) for i in range(400)]
    assert random_worlds.broken_claims(random_worlds.summary(even)) == []
    slower = [found_with(9, fedrt=(1.0, 0.0, 5), fedrt_plus=(1.02, 0.0, 5))]
    assert random_worlds.broken_claims(random_worlds.summary(even + slower)) == []
    assert random_worlds.broken_claims(random_worlds.summary(slower)) == [
        "beaten by more than 1% in 1 of 1 worlds"
    ]
    slower = [found_with(9, fedrt=(1.0, 0.0, 5), fedrt_plus=(1.04, 0.0, 5))]
    assert random_worlds.broken_claims(random_worlds.summary(even + slower)) == [
        "beaten by 4.00%, more than 3%"
    ]
    # To within a millionth of all budgets.
    over = [
        found_with(7, fedrt=(1.0, 0.0, 5), fedrt_plus=(1.0, 0.0009, 5)),
        found_with(8, fedrt=(1.0, 0.0, 5), fedrt_plus=(1.0, 0.0011, 5)),
    ]
    assert random_worlds.broken_claims(random_worlds.summary(even + over)) == [
        "overspends more than fedrt in worlds [8]"
    ]


def test_a_rival_that_overspends_more_or_loses_updates_beats_nobody():
    plus = (2.0, 1.0, 5)
    assert random_worlds.beaten_by(found_with(0, static_r=(1.0, 1.0, 5), fedrt_plus=plus)) == (
        1.0,
        "static-r",
    )
    for rival in ((1.0, 1.1, 5), (1.0, 1.0, 4), (2.5, 0.0, 9)):
        assert random_worlds.beaten_by(found_with(0, static_r=rival, fedrt_plus=plus)) == (0.0, "")
