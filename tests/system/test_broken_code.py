"""A policy or a model of the user's that raises: one line with its file and line, no folder."""

from __future__ import annotations

import json
import os
import sys

import pytest
from support.paths import TESTS
from support.trained import TRAINING

from fedrt.cli import main

SETTINGS = [word for text in TRAINING for word in ("--set", text)]
MODEL = ["--set", "learning.model=support.trained:Touchy", "--set", "learning.model_bits=20800"]


def run_main(*words):
    return main(["run", *SETTINGS, "--device", "cpu", *map(str, words)])


TOUCHY = next(
    number
    for number, line in enumerate((TESTS / "support" / "trained.py").read_text().splitlines(), 1)
    if 'RuntimeError("not this one")' in line
)
ENGINES = (["--engine", "sequential"], ["--chunk", "4", "--workers", "1"], [])


@pytest.mark.parametrize("options", ENGINES, ids=" ".join)
def test_a_model_that_raises_on_real_data_is_one_line_and_leaves_nothing(options, tmp_path, capsys):
    assert run_main("--out", tmp_path / "run", *MODEL, *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    *notes, line = err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert line == (
        "scenario.learning.model: support.trained:Touchy failed on real data: "
        f"RuntimeError: not this one (trained.py, line {TOUCHY})"
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_model_that_raises_in_a_worker_is_one_line(tmp_path, capsys):
    assert run_main("--out", tmp_path / "run", *MODEL, "--chunk", "4", "--workers", "2") == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.endswith(f"RuntimeError: not this one (trained.py, line {TOUCHY})")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("rounds", "command"),
    [(0, "run"), (0, "compare"), (0, "estimate"), (3, "estimate"), (3, "sweep")],
)
def test_a_policy_that_raises_leaves_no_folder(rounds, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDRT_TEST_ROUNDS", str(rounds))
    words = {
        "run": ["run", "--policy", "support.trained:Tired"],
        "compare": ["compare", "--policies", "fedrt,support.trained:Tired"],
        "estimate": ["estimate", "--policies", "fedrt,support.trained:Tired"],
        "sweep": [
            *("sweep", "quickstart", "--vary", "bandwidth.scale=1,2"),
            *("--policies", "fedrt,support.trained:Tired"),
        ],
    }[command]
    engine = ["--engine", "sequential"] if command in ("run", "compare") else []
    assert main([*words, *SETTINGS, *engine]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"policy tired, global round {rounds}, edge round 0: KeyError: ")
    assert "(trained.py, line " in lines[-1]
    assert not list(tmp_path.rglob("*.*"))


def test_what_was_trained_before_a_policy_raised_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDRT_TEST_ROUNDS", "3")
    out = tmp_path / "run"
    assert run_main("--policy", "support.trained:Tired", "--out", out) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2] == (
        f"what was trained before that is in {out}; once your code is mended, go on in a branch:"
        f" fedrt run --branch {out} --allow-code"
    )
    assert lines[-1].startswith("policy tired, global round 3, edge round 0: KeyError: ")
    assert (out / "checkpoints" / "000003.npz").exists()


FAULTY = """
from fedrt.policies.static_t import StaticT
class Mine(StaticT):
    name = "mine"
    rounds = 0
    def plan(self, seen, books):
        if self.rounds == 2:
            raise KeyError("enough")
        self.rounds += seen.backhaul is not None
        return super().plan(seen, books)
"""


def test_a_mended_policy_goes_on_in_a_branch(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own_mended_policy.py"
    own.write_text(FAULTY)
    words = ["--policy", "own_mended_policy:Mine", "--engine", "sequential"]
    assert run_main(*words, "--out", "run") == 2
    assert (tmp_path / "run" / "checkpoints" / "000002.npz").exists()
    own.write_text(FAULTY.replace("self.rounds == 2", "False"))
    del sys.modules["own_mended_policy"]
    capsys.readouterr()
    assert main(["run", "--resume", "run", "--allow-code"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the source of own_mended_policy:Mine (own_mended_policy.py) was changed" in line
    assert "start a branch of it (fedrt run --branch)" in line
    assert main(["run", "--branch", "run", "--allow-code", "--out", "branch", "--json"]) == 0
    summary = json.loads((tmp_path / "branch" / "summary.json").read_text())
    assert summary["branch"]["after_global_round"] == 1
