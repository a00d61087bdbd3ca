"""The example of a policy that learns, in a small form, and the scores that it left."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.children import LIMIT_S, environment
from support.paths import EXAMPLES, ROOT

import fedrt

pytest.importorskip("gymnasium")

SCORES = json.loads((ROOT / "results" / "bench" / "learned.json").read_text())["rows"]
LISTS = ("time_s", "energy_j_mean", "over_budget_devices", "over_budget_j")
FIRST_UNSEEN = 10_000


@pytest.mark.slow
def test_the_example_trains_and_scores_itself(tmp_path):
    pytest.importorskip("stable_baselines3")
    out = tmp_path / "learned.json"
    command = [sys.executable, str(EXAMPLES / "learned_policy.py"), "quickstart"]
    done = subprocess.run(
        [*command, "--steps", "1", "--worlds", "2", "--out", str(out)],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    kept = next(each for each in SCORES if each["world"] == "quickstart")
    assert row.keys() == kept.keys()
    assert row["trained"]["env_steps"] == 4096
    for policy, lists in row["beside"].items():
        for name in LISTS:
            assert lists[name] == pytest.approx(kept["beside"][policy][name][:2], rel=1e-9)
    assert all(0 < value < 1000 for value in row["time_s"])
    assert "ppo on an even split" in done.stdout


@pytest.mark.parametrize("row", SCORES, ids=lambda row: row["world"])
def test_scores_are_of_worlds_that_training_has_not_seen(row):
    assert row["seeds"] == [*range(FIRST_UNSEEN, FIRST_UNSEEN + 20)]
    assert row["trained"]["seeds"] == f"drawn from 0 to {FIRST_UNSEEN - 1}"
    assert row["trained"]["cpu_s"] <= 15 * 60  # in one process on one core
    for lists in (row, *row["beside"].values()):
        assert all(len(lists[name]) == 20 for name in LISTS)


def test_policies_beside_it_take_what_estimate_says(tmp_path):
    row = next(each for each in SCORES if each["world"] == "quickstart")
    found = fedrt.estimate(
        "quickstart",
        policies=[*row["beside"]],
        seeds=[FIRST_UNSEEN + 7],
        out=tmp_path / "out",
        progress=False,
    ).summary.set_index("policy")
    for policy, lists in row["beside"].items():
        assert found.total_time_s[policy] == pytest.approx(lists["time_s"][7], rel=1e-9)
        assert found.energy_j_mean[policy] == pytest.approx(lists["energy_j_mean"][7], rel=1e-9)
