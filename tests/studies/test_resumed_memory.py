"""A run that goes on takes what its policy remembers from the checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
from kill_campaign import differences
from support.resumed import checkpoints_of, resumed, stopped
from support.stopped import PLAIN
from support.trained import train, trained

from fedrt.policies import make_policy
from fedrt.runs.reference import Reference

SLOW = ("faults.straggler={kind='random',probability=0.4}", "learning.participation=0.6")


def watched(monkeypatch, policy):
    """The global rounds that a policy plans, and those that FedRT plans beside it."""
    rounds, beside = [], []
    kind, its_plan = type(make_policy(policy)), Reference.plan

    def plan(self, seen, *given, true=kind.plan):
        rounds.append(seen.t)
        return true(self, seen, *given)

    def plan_beside(self, seen):
        beside.append(seen.t)
        return its_plan(self, seen)

    monkeypatch.setattr(kind, "plan", plan)
    monkeypatch.setattr(Reference, "plan", plan_beside)
    return rounds, beside


@pytest.mark.parametrize(
    "policy", ["fedrt-plus", "oort", "tifl", "lroa", "proportional-fair", "fedrt"]
)
def test_nothing_is_planned_again(policy, tmp_path, monkeypatch):
    settings = (*PLAIN, *SLOW)
    whole = train(tmp_path / "whole", trained(*settings), policy)
    cut = stopped(tmp_path / "cut", 3, *settings, policy=policy)
    rounds, beside = watched(monkeypatch, policy)
    resumed(cut)
    assert min(rounds) == 3
    assert sorted({*beside}) == ([3, 4] if policy == "fedrt-plus" else [])
    assert differences(whole, cut) == []


@pytest.mark.parametrize("policy", ["fedrt-plus", "oort"])
def test_checkpoints_without_a_memory_are_planned_again(policy, tmp_path, monkeypatch):
    """As older versions left them: what they lack comes from the records."""
    settings = (*PLAIN, *SLOW)
    whole = train(tmp_path / "whole", trained(*settings), policy)
    cut = stopped(tmp_path / "cut", 3, *settings, policy=policy)
    for path in checkpoints_of(cut):
        with np.load(path) as file:
            kept = {name: file[name] for name in file.files if name.partition(".")[0] != "run"}
        assert kept.keys() < {*np.load(path).files}
        np.savez(path, **kept)
    rounds, _ = watched(monkeypatch, policy)
    resumed(cut)
    assert min(rounds) == 0
    assert differences(whole, cut) == []
