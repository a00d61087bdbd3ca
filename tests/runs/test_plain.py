"""What a policy remembers is plain data, which comes back from arrays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.control.pacing.energy_prices import Prices
from fedrt.errors import InputError
from fedrt.policies import SHIPPED, make_policy
from fedrt.policies.base import first_memory, remembers
from fedrt.policies.fedrt_plus import Memory
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.plain import packed, unpacked
from fedrt.world.simulated import SimulatedWorld

REMEMBERING = [name for name in SHIPPED if remembers(make_policy(name))]


def same(one, other):
    assert type(one) is type(other)
    ours, theirs = packed(one), packed(other)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
        assert array.dtype == theirs[name].dtype


def test_these_policies_remember_and_no_shipped_one_in_itself():
    names = ["fedrt-plus", "fedrt-joint", "oort", "tifl", "lroa", "proportional-fair"]
    assert names == REMEMBERING
    for name in SHIPPED:
        assert make_policy(name).__dataclass_params__.frozen, name


@pytest.mark.parametrize("policy", REMEMBERING)
def test_the_state_of_a_run_comes_back_as_it_was(policy):
    slow = "faults.straggler={kind='random',probability=0.4}"
    world, made = SimulatedWorld(tiny(slow, "rounds.global_rounds=3"), 0), make_policy(policy)
    *_, last = simulate_rounds(world, made)
    saved = last.state.saved
    begun = {**saved, "memory": first_memory(made, world.fleet.num_devices)}
    same(unpacked(packed(saved), begun, "here"), saved)


def test_texts_numbers_and_what_is_inside_of_others():
    memory = Memory(Prices.unknown(3), (np.arange(4.0),), late=True, planned_s=np.array([np.nan]))
    plain = {"a": [1, (2.5, "x", None, True), {"b": np.arange(2)}], "c": -np.inf, "d": 0.1}
    same(unpacked(packed(plain), dict.fromkeys(plain), "here"), plain)
    same(unpacked(packed(memory), Memory(Prices.unknown(3)), "here"), memory)


@pytest.mark.parametrize("data", [object(), {1: 2}, np.array(["x"]), {"a": {1, 2}}])
def test_other_things_are_refused_when_they_are_saved(data):
    with pytest.raises(InputError, match=r"a policy.s memory has .*: must be arrays of numbers"):
        packed(data)


@pytest.mark.parametrize(
    "like",
    [Memory(Prices.unknown(4)), {"prices": 1}, np.zeros(3)],
)
def test_what_does_not_fit_is_a_line(like):
    arrays = packed(Memory(Prices.unknown(3)))
    for broken in (arrays, {**arrays, "run": np.array("[")}, {"run": np.array("7")}):
        with pytest.raises(InputError, match="here: its state of the run cannot be read"):
            unpacked(broken, like, "here")
