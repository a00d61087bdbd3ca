"""Menus for models that are shorter than a codec's message, and the policies that choose."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.tiny import tiny

import fedrt
from fedrt.control.coding.menu import gossip_codec, make_menu, menu_of, place_in
from fedrt.errors import InputError
from fedrt.messages import LADDER, UNCOMPRESSED
from fedrt.plan import gossip_bits, upload_bits, upload_codecs
from fedrt.policies import make_policy
from fedrt.runs.loop import simulate_rounds
from fedrt.scenario import load_scenario
from fedrt.scenario.sizes import LEAST_PARAMETERS, message_bits, size_notes
from fedrt.world.simulated import SimulatedWorld

ALL = ("int2", "int3", "int4", "int5", "int6", "int8", "float16", "float32")


def test_the_uncompressed_model_is_in_the_menu_where_some_message_is_no_shorter():
    # Five numbers are 160 bits. int3: a header of 128, a scale of 16, and 15 bits in two bytes.
    assert make_menu(ALL[1:7], None, 160, 0, "x").names == (UNCOMPRESSED,)
    # Six are 192: int3 and int4 take 168 with three bytes, int5 and int6 176 and 184, int8 192.
    six = make_menu(ALL[1:7], None, 192, 0, "x", 1.5, 8.0)
    assert six.names[0] == "int4"
    assert six.names[-1] == UNCOMPRESSED
    assert six.bits[0] == (168 + 8) * 1.5
    assert six.bits[-1] == (192 + 8) * 1.5
    assert six.distortion[-1] == 0
    # Where all messages are shorter the menu is what it was, and may have a limit that none keeps.
    assert make_menu(ALL[1:7], None, 3200, 0, "x").names == ALL[1:7]
    with pytest.raises(InputError, match=r"^x\.distortion_limit = 0: must be at least"):
        make_menu(("int4",), 0.0, 3200, 0, "x")
    assert make_menu(("int4",), 0.0, 100, 0, "x").names == (UNCOMPRESSED,)
    # Buffers go beside every coded message.
    assert make_menu(("int4", "int8"), None, 3200, 3200, "x").names == (UNCOMPRESSED,)


def test_gossip_is_not_coded_where_that_is_longer():
    menu = make_menu(("int2",), "int2", 3200, 0, "x")
    assert gossip_codec(menu, "none", 3200, 0) == "int3"
    # 40 numbers are 1280 bits. int2 has a header of 128, a scale of 16 and 80 bits, int3 has 120.
    edge = make_menu(("int2",), "int2", 1280, 1030, "x")
    assert edge.names == ("int2",)
    assert gossip_codec(edge, "none", 1280, 1030) == UNCOMPRESSED
    assert gossip_codec(menu, "int8", 100, 0) == "int8"


def test_the_place_of_a_codec_or_of_a_better_one():
    menu = make_menu(("int3", "int8"), None, 3200, 0, "x")
    assert place_in(menu, "int8", 3200, 0) == 1
    assert place_in(menu, "int4", 3200, 0) is None
    # For one number all that round take a byte: int8 loses least.
    one = make_menu(("int4", "int8"), None, 320, 0, "x")
    byte = replace(one, names=("int8",), bits=one.bits[-1:], distortion=one.distortion[-1:])
    assert place_in(byte, "int8", 320, 0) == 0
    assert place_in(make_menu(("int4", "int8"), None, 32, 0, "x"), "int4", 32, 0) == 0


@pytest.mark.parametrize("policy", ["even-int4", "even-int8"])
def test_a_codec_that_the_scenario_does_not_allow_is_still_an_error(policy):
    world = SimulatedWorld(tiny('control.codecs=["int3"]', "control.distortion_limit=0.1"), 0)
    with pytest.raises(InputError, match=re.escape("control.codecs must have int")):
        next(iter(simulate_rounds(world, make_policy(policy))))


def random_settings(rng):
    """A scenario with a model of any size, and what else goes into a message's length."""
    settings = [
        f"learning.model_bits={round(10 ** rng.uniform(0, 6))}",
        f"learning.model_buffers={rng.choice([0, 0, 3, 1395])}",
        "rounds.global_rounds=2",
    ]
    more = [
        ["learning.scaffold=true", "learning.momentum=0"],
        ["overheads={header_factor=1.1}"],
        ['control.codecs=["int2","int4","int8"]'],
        ["fleet.energy_j_per_edge_round=0.3"],
    ]
    return settings + [text for each in more if rng.random() < 0.4 for text in each]


@pytest.mark.parametrize("seed", range(12))
def test_no_message_is_longer_than_the_model_and_no_run_slower_for_it(seed):
    settings = random_settings(np.random.default_rng(seed))
    world = SimulatedWorld(tiny(*settings), seed)
    factor, time_s, over_j = world.overheads.header_factor, {}, {}
    for policy in ("fedrt", "ce-fedavg", "fedrt-joint", "even-int4", "even-int8"):
        for done in simulate_rounds(world, make_policy(policy)):
            for turn in done.edge_rounds:
                bits = upload_bits(turn.plan, turn.seen)
                assert (bits <= world.upload_bits * factor).all(), settings
            sent = gossip_bits(done.last.gossip, done.last.seen)
            assert sent <= world.model_bits * factor, settings
            time_s[policy], over_j[policy] = done.ends_at_s, done.last.after.overspent_j.sum()
    assert time_s["fedrt-joint"] <= time_s["fedrt"] * 1.001, settings
    assert over_j["fedrt-joint"] <= over_j["fedrt"] * 1.001 + 1e-9, settings
    for policy in ("even-int4", "even-int8"):
        assert time_s[policy] <= time_s["ce-fedavg"] * (1 + 1e-9), settings


def test_a_model_that_is_too_small_costs_no_time_under_any_policy():
    """The example that took 9.5 times as long: a coded message had the buffers of ResNet-20."""
    given = ["learning.model_bits=1000", "rounds.global_rounds=2"]
    policies = ["fedrt", "fedrt-plus", "fedrt-joint"]
    runs = fedrt.estimate("paper/femnist", policies=policies, settings=given, progress=False)
    time_s = {name: run["total_time_s"] for name, (run,) in runs.outcomes.items()}
    over_j = {name: run["over_budget_j"] for name, (run,) in runs.outcomes.items()}
    assert time_s["fedrt-joint"] <= time_s["fedrt"]
    assert over_j["fedrt-joint"] <= over_j["fedrt"] * 1.001


def test_a_device_that_was_stepped_up_may_still_send_the_uncompressed_model():
    world = SimulatedWorld(tiny("learning.model_bits=192"), 0)
    (turn, *_) = next(iter(simulate_rounds(world, make_policy("fedrt-joint")))).edge_rounds
    menu, count = menu_of(world.scenario), turn.seen.num_devices
    whole = menu.names.index(UNCOMPRESSED)
    codec = np.where(np.arange(count) % 2, whole, 0)
    half = message_bits("float16", 192)
    seen = replace(turn.seen, menu=menu, least_bits=np.full(count, half))
    plan = replace(turn.plan, codec=codec)
    assert upload_bits(plan, seen).tolist() == [half, 192.0] * (count // 2) + [half] * (count % 2)
    assert set(upload_codecs(plan, seen)[1::2]) == {UNCOMPRESSED}
    assert set(upload_codecs(plan, seen)[::2]) == {"float16"} <= set(LADDER)


# --- notes about the model's size ------------------------------------------------------------


def test_a_size_that_cannot_be_the_models_is_a_note(tmp_path, capsys):
    def noted(**asked):
        fedrt.estimate("quickstart", policies="fedrt", rounds=1, progress=False, **asked)
        return [line for line in capsys.readouterr().err.splitlines() if "model_bits" in line]

    assert noted(out=tmp_path / "a") == []
    (line,) = noted(out=tmp_path / "b", settings=["learning.model_bits=1000"])
    assert line.startswith("note: scenario.learning.model_bits = 1000 cannot be that of the model")
    assert "small-cnn, which has 154656 bit or more" in line


def test_studies_and_the_check_say_it_too(tmp_path, capsys):
    small = ["learning.model_bits=1000", "rounds.global_rounds=1"]
    common = {"settings": small, "progress": False}
    some = common | {"policies": "fedrt"}
    calls = [
        lambda: fedrt.sweep("quickstart", vary="bandwidth.scale=1,2", out=tmp_path / "s", **some),
        lambda: fedrt.front("quickstart", budgets="1", out=tmp_path / "f", **some),
        lambda: fedrt.bound("quickstart", out=tmp_path / "b", **some),
        lambda: fedrt.size(
            "quickstart", deadline="1h", vary="bandwidth.scale=1..2", out=tmp_path / "z", **common
        ),
        lambda: fedrt.check("quickstart", small),
    ]
    for call in calls:
        call()
        assert capsys.readouterr().err.count("cannot be that of the model small-cnn") == 1
    sizes = "learning.model_bits=" + ",".join(map(str, range(1, 9)))
    fedrt.sweep("quickstart", vary=sizes, out=tmp_path / "m", **some)
    assert 1 <= capsys.readouterr().err.count("cannot be that of the model") <= 3


def test_shipped_scenarios_and_models_of_ones_own_have_no_note():
    for name in ("quickstart", "city", "paper/femnist", "paper/cifar10-iid", "paper/fmnist-iid"):
        assert size_notes(load_scenario(name).learning) == []
    own = load_scenario("quickstart", ["learning.model=own:Net", "learning.model_bits=32"])
    assert size_notes(own.learning) == []
    assert len(size_notes(replace(own.learning, model_bits=31.0))) == 1
    assert size_notes(replace(own.learning, model_bits="measured")) == []


def test_the_least_sizes_are_those_of_the_models():
    architectures = pytest.importorskip("fedrt.learning.models.architectures")
    assert LEAST_PARAMETERS.keys() == architectures.MODELS.keys()
    for name, made in architectures.MODELS.items():
        sides = {"lenet5": 16}.get(name, 4)
        count = architectures.parameter_count(made((1, sides, sides), 1))
        assert count == LEAST_PARAMETERS[name]
