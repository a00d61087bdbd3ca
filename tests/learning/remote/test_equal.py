"""Parties without a network train what the sequential engine does, to the bit."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from support.parties import Parties, carry_out, six, split
from support.watched import Watched, run

from fedrt.learning.codecs import guard as guards
from fedrt.learning.distances import average
from fedrt.learning.exporting import Inputs
from fedrt.learning.material import measure
from fedrt.learning.remote import Evaluator
from fedrt.messages import LADDER
from fedrt.rounds import NOT_STEPPED
from fedrt.runs.rounds import GlobalRound

pytestmark = pytest.mark.numerical

NORMED = (
    "learning.model='support.trained:Normed'",
    "learning.model_bits=10176",
    "learning.model_buffers=9",
)
RING = (
    "fleet.num_edges=4",
    "fleet.cluster_sizes=[2,1,2,1]",
    "base_graph={kind='ring'}",
    "rounds.gossip_steps=3",
)
SMALL_CNN = ("learning.model='small-cnn'", "learning.model_bits=194880")
CASES = {
    "no codec": (),
    "float32": ("learning.upload=float32",),
    "int4": ("learning.upload=int4",),
    "float16": ("learning.upload=float16",),
    "top-k": ("learning.upload=top-k", "learning.top_k=0.1"),
    "a user's codec": ("learning.upload='support.own_codecs:Half'",),
    "a user's codec with a state": ("learning.upload='support.own_codecs:StackedHalf'",),
    "clip and noise, no codec": (
        "learning.update=[{kind='clip',max_norm=0.1},{kind='noise',sigma=0.01}]",
    ),
    "clip, noise, int4": (
        "learning.update=[{kind='clip',max_norm=0.1},{kind='noise',sigma=0.01},'int4']",
        *NORMED,
    ),
    "transforms that remember, a mirror": (
        "learning.update=['support.own_transforms:Late','support.own_transforms:Hidden','int8']",
    ),
    "the same with a user's codec": (
        "learning.update=['support.own_transforms:Late','support.own_transforms:Hidden',"
        "'support.own_codecs:Half']",
    ),
    "the same with no codec": (
        "learning.update=['support.own_transforms:Late','support.own_transforms:Hidden','none']",
    ),
    "gossip on a ring": RING,
    "int8 gossip": ("learning.gossip=int8",),
    "int3 gossip on a ring, int4": (*RING, "learning.gossip=int3", "learning.upload=int4"),
    "batch norm": NORMED,
    "batch norm, int4, int8 gossip": (*NORMED, "learning.upload=int4", "learning.gossip=int8"),
    "momentum, augmentation, int4": (
        *SMALL_CNN,
        "learning.augment=true",
        "learning.momentum=0.9",
        "learning.upload=int4",
    ),
    "dropout": ("learning.model='support.learning_cases:WithDropout'",),
    "adam and a schedule": (
        "learning.optimiser={kind='adam'}",
        "learning.schedule={kind='cosine'}",
    ),
    "weights by samples": (
        "learning.averaging=samples",
        "learning.partition={kind='dirichlet',concentration=1.0,form='class'}",
    ),
    "an outlier is refused": (
        "faults={refuse=true,attack={kind='sign-flip',devices=[1],scale=90}}",
    ),
    "a random model with many samples is refused": (
        "fleet={num_devices=8,cluster_sizes=[4,4]}",
        "learning.averaging=samples",
        "faults.attack={kind='random-model',devices=[1,6],first_round=1}",
    ),
    "a copy is refused": (
        "fleet={num_devices=8,cluster_sizes=[4,4]}",
        "faults.attack={kind='a-little-is-enough',devices=[1,2]}",
    ),
    "signs are flipped": (
        "fleet={num_devices=12,cluster_sizes=[8,4]}",
        "learning.partition={kind='dirichlet',concentration=1.0}",
        "rounds.global_rounds=6",
        "faults.attack={kind='sign-flip',devices=[1,9]}",
    ),
    "not a number is refused": (
        "faults={refuse=true,attack={kind='nan',devices=[4]}}",
        "learning.upload=int4",
    ),
    "median": (
        "learning.averaging=median",
        "faults={refuse=false,attack={kind='noise',devices=[0]}}",
    ),
    "server optimiser": (
        "learning.server_optimiser={kind='fedadam',learning_rate=0.1,beta1=0.5,beta2=0.75,tau=0.01}",
    ),
    "scaffold": ("learning.scaffold=true", "learning.momentum=0"),
    "float64": ("learning.dtype=float64",),
}


def compare(
    tmp_path, settings, policy="fedrt", *, restarts=False
) -> tuple[Parties, Watched, list[GlobalRound]]:
    """Carry out a run's rounds by parties; everything must be the run's, to the bit."""
    scenario = six(*settings)
    trainer, rounds = run(scenario, policy)
    parties = Parties(split(tmp_path, scenario), scenario)

    def watch(moment, t, r):
        wanted = trainer.moments[moment, t, r]
        models = [edge.model() for edge in parties.edges]
        assert models == [edge.parts.pack(wanted[edge.edge]) for edge in parties.edges]
        if moment == "trained":
            for one, two, here in zip(parties.edges, models[1:], models[:-1], strict=False):
                apart = trainer_distance(trainer, wanted)[one.edge, one.edge + 1]
                assert one.distance_to(two) == apart
                assert parties.edges[one.edge + 1].distance_to(here) == apart

    found = carry_out(parties, rounds, watch, restarts=restarts)
    for ours, done in zip(found, rounds, strict=True):
        assert {"loss", "consensus", "accuracy", "edge_accuracy_min", "wall_s"} <= ours.keys()
        for name in ours.keys() - {"wall_s"}:
            np.testing.assert_equal(ours[name], done.metrics[name], err_msg=name)
    return parties, trainer, rounds


def trainer_distance(trainer, models):
    before, trainer.models = trainer.models, models
    try:
        return trainer.distances(0).true
    finally:
        trainer.models = before


def same_turns(parties: Parties, rounds: list[GlobalRound]) -> int:
    """Refusals and bytes of all edge rounds are the run's; how many updates were refused."""
    refused = 0
    for turn, done in zip((t for d in rounds for t in d.edge_rounds), parties.done, strict=True):
        ours = np.concatenate([averaged.refused for averaged in done])
        came = turn.outcome.delivered
        if turn.outcome.refused is not None:
            np.testing.assert_array_equal(ours, turn.outcome.refused[came])
        refused += int((ours >= 0).sum())
        lengths = np.concatenate([averaged.upload_bytes for averaged in done])
        if parties.edges[0].parts.method.codec is not None:
            np.testing.assert_array_equal(lengths, turn.cost.upload_bytes[came])
    return refused


@pytest.mark.parametrize("case", CASES)
def test_edge_models_and_metrics_are_the_sequential_engines(case, tmp_path):
    parties, _, rounds = compare(tmp_path, CASES[case])
    refused = same_turns(parties, rounds)
    assert (refused > 0) == ("is refused" in case)


@pytest.mark.parametrize("shape", [(12, 12), (12, 12, 1), (12, 12, 3)])
def test_convolutions_of_any_images_are_the_same(shape, tmp_path):
    rng, arrays = np.random.default_rng(3), {}
    for part, count in (("train", 90), ("test", 20)):
        arrays[f"x_{part}"] = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 10
    np.savez(tmp_path / "own.npz", **arrays)
    (tmp_path / "files").mkdir()
    model = "learning.model='support.parties:Convolutions'"
    compare(tmp_path / "files", (f"learning.dataset='{tmp_path}/own.npz'", model))


@pytest.mark.parametrize(("model", "bits"), [("Five", 160), ("Six", 192)])
def test_uploads_without_a_codec_where_that_is_shorter(model, bits, tmp_path):
    own = (f"learning.model='support.trained:{model}'", f"learning.model_bits={bits}")
    policies = ["fedrt-joint", *(["even-int8"] if model == "Five" else [])]
    for policy in policies:
        folder = tmp_path / policy
        folder.mkdir()
        parties, _, rounds = compare(folder, own, policy, restarts=True)
        same_turns(parties, rounds)
        turns = [turn for done in rounds for turn in done.edge_rounds]
        names = {name for turn in turns for name in np.array(turn.seen.menu.names)[turn.plan.codec]}
        assert "none" in turns[0].seen.menu.names
        assert names == {"none"} or model == "Six"
        assert all((8 * turn.outcome.cost.upload_bytes <= bits).all() for turn in turns)
        assert all(done.last.gossip.codec is None for done in rounds) == (model == "Five")


def test_the_codecs_that_a_policy_chooses_are_used(tmp_path):
    parties, _, rounds = compare(tmp_path, (), "even-int4")
    turns = [turn for done in rounds for turn in done.edge_rounds]
    assert all(turn.plan.codec is not None for turn in turns)
    for turn, done in zip(turns, parties.done, strict=True):
        lengths = np.concatenate([averaged.upload_bytes for averaged in done])
        np.testing.assert_array_equal(lengths, turn.cost.upload_bytes)


def test_a_users_codec_that_a_policy_chooses_is_used(tmp_path):
    codecs = 'control.codecs=["int4","support.own_codecs:Stated"]'
    parties, _, rounds = compare(
        tmp_path, (codecs, "control.distortion_limit=0.009"), "fedrt-joint"
    )
    turns = [turn for done in rounds for turn in done.edge_rounds]
    assert {n for turn in turns for n in turn.plan.codec.tolist()} == {0, 1}
    for turn, done in zip(turns, parties.done, strict=True):
        lengths = np.concatenate([averaged.upload_bytes for averaged in done])
        np.testing.assert_array_equal(lengths, turn.cost.upload_bytes)


def test_devices_whose_messages_leave_too_much_out_are_stepped_up(tmp_path, monkeypatch):
    # A limit that digits under int2 do not keep, and int3 does.
    monkeypatch.setattr(guards, "LIMITS", np.full(len(LADDER), 0.7))
    settings = ("learning.upload=int2", *SMALL_CNN, "rounds.global_rounds=4")
    parties, _, rounds = compare(tmp_path, settings, restarts=True)
    steps = 0
    for turn, done in zip((t for d in rounds for t in d.edge_rounds), parties.done, strict=True):
        blank = [np.full(len(each.devices), NOT_STEPPED) for each in done]
        ours = np.concatenate(
            [b if e.stepped_up is None else e.stepped_up for b, e in zip(blank, done, strict=True)]
        )
        wanted = turn.outcome.stepped_up
        np.testing.assert_array_equal(ours, np.full(6, NOT_STEPPED) if wanted is None else wanted)
        steps += int((ours != NOT_STEPPED).sum())
    assert steps > 0


def test_what_a_run_folder_keeps_of_models_is_the_same(tmp_path):
    parties, trainer, _ = compare(tmp_path, CASES["batch norm"])
    assert parties.evaluator.noted_inputs == asdict(Inputs.of(trainer.setup.samples))
    assert parties.evaluator.data_digest == trainer.setup.data_digest
    models = [edge.model() for edge in parties.edges]
    np.testing.assert_array_equal(parties.evaluator.arrays(models), trainer.models.numpy())
    wanted = parties.evaluator.parts.pack(average(trainer.models))
    assert parties.evaluator.average(models) == wanted
    digests = {edge.model_digest for edge in parties.edges}
    digests |= {device.model_digest for device in parties.devices.values()}
    assert digests == {parties.evaluator.model_digest}


def test_measured_settings_are_those_of_the_model_that_trains(tmp_path):
    measured = ("learning.model_bits=measured", "fleet.cycles_per_sample=measured")
    scenario = six(*measured, "learning.upload=int4")
    found = Evaluator.open(scenario, 0, split(tmp_path, scenario) / "server.npz").scenario
    assert found == measure(scenario)
    assert found.learning.model_bits == 32 * 650


RESTARTED = (
    "no codec",
    "gossip on a ring",
    "int3 gossip on a ring, int4",
    "a user's codec with a state",
    "server optimiser",
    "scaffold",
    "batch norm, int4, int8 gossip",
    "signs are flipped",
)


@pytest.mark.parametrize("case", RESTARTED)
def test_all_parties_may_restart_between_and_in_the_middle_of_rounds(case, tmp_path):
    compare(tmp_path, CASES[case], restarts=True)
