"""The codecs of updates in the devices' table: those that were used, and who was stepped up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

from fedrt.messages import LADDER, message_bytes
from fedrt.plan import upload_bits
from fedrt.policies import make_policy
from fedrt.records.history import History, codec_columns
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.least_codecs import LeastCodecs
from fedrt.runs.loop import simulate_rounds
from fedrt.world.simulated import SimulatedWorld

NUMBERS = 250_000
"""Of the small scenario: 8e6 bits of 32 each."""


@pytest.fixture(scope="module")
def rounds():
    world = SimulatedWorld(tiny("rounds.global_rounds=2"), 0)
    return list(simulate_rounds(world, make_policy("fedrt-joint")))


def test_the_rows_name_the_codecs_of_the_plans(rounds):
    collected = History("metropolis")
    for done in rounds:
        collected.add(done)
    table = collected.tables()["devices"]
    turns = [turn for done in rounds for turn in done.edge_rounds]
    chosen = [turn.seen.menu.names[place] for turn in turns for place in turn.plan.codec]
    assert table["codec"].to_pylist() == chosen
    assert len(set(chosen)) > 1
    lengths = [message_bytes(name, NUMBERS) for name in chosen]
    assert table["upload_bytes"].to_pylist() == lengths
    assert not any(table["stepped_up"].to_pylist())


def test_a_policy_that_chooses_none_has_no_such_rows():
    world = SimulatedWorld(tiny("rounds.global_rounds=1", "learning.upload='int4'"), 0)
    (done,) = simulate_rounds(world, make_policy("fedrt"))
    assert codec_columns(done.last) == {}


@pytest.mark.parametrize(("beside_bits", "factor"), [(0.0, 1.0), (32.0 * 1395, 1.07)])
def test_a_device_that_was_stepped_up_uses_what_it_was_stepped_up_to(rounds, beside_bits, factor):
    """Six devices with a menu of int3 to float16; buffers are in every message."""
    turn = rounds[-1].last
    seen, menu = turn.seen, turn.seen.menu
    assert menu.names == ("int3", "int4", "int5", "int6", "int8", "float16")
    menu = replace(menu, bits=(menu.bits + beside_bits) * factor)
    laws = replace(seen.laws, header_factor=factor)
    codec = np.array([0, 1, 2, 3, 4, 5, 0])
    least = LeastCodecs(np.zeros(7, dtype=np.int64), beside_bits)
    step = [LADDER.index(name) for name in ("int5", "int2", "int4", "int8", "int8", "int4", "int3")]
    seen = replace(least, step=np.array(step)).seen(replace(seen, menu=menu, laws=laws))
    plan = replace(turn.plan, codec=codec, trains=np.array([True] * 6 + [False]))
    after = np.array([NOT_STEPPED, 3, NOT_STEPPED, NOT_STEPPED, 6, NOT_STEPPED, NOT_STEPPED])
    turn = replace(turn, seen=seen, plan=plan, outcome=replace(turn.outcome, stepped_up=after))
    found = codec_columns(turn)
    used = ["int5", "int4", "int5", "int8", "int8", "float16"]
    assert found["codec"].tolist() == [*used, ""]
    assert found["stepped_up"].tolist() == [False, True, False, False, True, False, False]
    lengths = [(8 * message_bytes(name, NUMBERS) + beside_bits) * factor for name in used]
    np.testing.assert_array_equal(upload_bits(plan, seen)[:6], lengths)
