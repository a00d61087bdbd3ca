"""The examples run, and do what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tiny import as_options, tiny

from fedrt.cli import main
from fedrt.policies import make_policy
from fedrt.runs.loop import make_world, simulate_rounds

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_own_policy_is_short_and_hurries_the_slowest(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    assert len((EXAMPLES / "own_policy.py").read_text().splitlines()) <= 32
    world = make_world(tiny("fleet.energy_j_per_edge_round=2"), 0)
    rounds = simulate_rounds(world, make_policy("own_policy:HurrySlowest"))
    turns = [turn for done in rounds for turn in done.edge_rounds]
    for turn in turns:
        hurried = turn.seen.max_by_edge(turn.cost.energy_j / turn.allowance_j) > 0.8 + 1e-9
        assert hurried.sum() <= 1
    assert any((turn.cost.energy_j > 0.81 * turn.allowance_j).any() for turn in turns)
    out = ["--out", str(tmp_path / "runs"), "--json", "--seeds", "0"]
    command = ["estimate", "quickstart", "--policies", "fedrt,own_policy:HurrySlowest"]
    assert main([*command, *out, *as_options()]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]["own_policy:HurrySlowest"]
    assert np.isfinite(found["total_time_s"]["mean"])
