"""The examples run, and do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kill_campaign import differences
from notebooks import cells_of, notebook, run_cell, scripts
from support.children import LIMIT_S, environment
from support.paths import EXAMPLES
from support.tiny import as_options, tiny
from support.trained import start, train, trained

from fedrt.cli import main
from fedrt.policies import make_policy
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.studies.training import carry_on


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


def test_the_policies_of_the_guide_run_as_they_stand_there(monkeypatch, tmp_path):
    """Every policy that docs/extending.md shows as a file, over a whole run."""
    guide = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    files = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", guide, flags=re.DOTALL)
    monkeypatch.syspath_prepend(tmp_path)
    left_out = {}
    policies = [(module, code) for module, code in files if "def plan" in code]
    for module, code in policies:
        (tmp_path / f"{module}.py").write_text(code)
        (name,) = re.findall(r"^class (\w+):", code, flags=re.MULTILINE)
        rounds = list(simulate_rounds(make_world(tiny(), 0), make_policy(f"{module}:{name}")))
        assert len(rounds) == 4
        turns = [turn for done in rounds for turn in done.edge_rounds]
        left_out[name] = [turn.seen.sum_by_edge(~turn.plan.trained).tolist() for turn in turns]
    # Of 2, 3 and 2 devices, in even and in odd rounds.
    assert left_out == {
        "MyPolicy": [[0, 0, 0]] * 8,
        "Turns": [[0, 0, 0]] * 8,
        "Halves": [[1, 2 if (t + r) % 2 else 1, 1] for t in range(4) for r in range(2)],
    }


PARTS = {
    "own_optimiser": "learning.optimiser=own_optimiser:Adam",
    "own_aggregator": "learning.averaging=own_aggregator:ClippedMean",
    "own_codec": "learning.upload={kind='own_codec:TopK',share=0.2}",
    "own_transform": "learning.update=['own_transform:RunningClip','int4']",
}


@pytest.mark.parametrize("name", PARTS)
def test_an_own_part_of_training_is_short_and_stands_in_the_docs(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 32
    shown = (EXAMPLES.parent / "docs" / "extending.md").read_text()
    assert text[text.index("class ") :] in shown


@pytest.mark.parametrize("parts", ["own_codec", "own_transform"])
def test_own_parts_train_a_run_that_goes_on_to_the_same_end(parts, monkeypatch, tmp_path, capsys):
    """Three at once; cut after two rounds, what devices remember comes from the checkpoint."""
    monkeypatch.chdir(EXAMPLES)
    scenario = trained(*(PARTS[name] for name in ("own_optimiser", "own_aggregator", parts)))
    whole, cut = train(tmp_path / "whole", scenario), start(tmp_path / "cut", scenario)
    rounds = []

    def stop(done):
        rounds.append(done)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_on(cut, progress=stop, note=lambda line: None)
    assert main(["run", "--resume", str(cut)]) == 2
    assert "is code to be run" in capsys.readouterr().err
    assert main(["run", "--resume", str(cut), "--allow-code"]) == 0
    assert differences(whole, cut) == []


OWN_MODEL = EXAMPLES / "notebooks" / "own_model.py"
RUN_CELLS = (
    "import json, sys\n"
    "cells = json.load(open(sys.argv[1]))['cells']\n"
    "for number, cell in enumerate(cells):\n"
    "    if cell['cell_type'] == 'code':\n"
    "        text = ''.join(cell['source'])\n"
    "        exec(compile(text, f'<ipython-input-{number}>', 'exec'))\n"
)
"""As a notebook runs them, each class in no module that another process could import."""


def run_notebook(script: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN_CELLS, script.with_suffix(".ipynb")],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.stem)
def test_a_notebook_is_its_script(script):
    text = script.read_text()
    assert script.with_suffix(".ipynb").read_text() == notebook(text)
    kinds = [kind for kind, _ in cells_of(text)]
    assert kinds[0] == "markdown"
    assert kinds.count("code") >= 2


def test_the_notebook_of_an_own_model_is_short_and_runs(tmp_path):
    assert len(OWN_MODEL.read_text().splitlines()) <= 55
    ours, recorded = re.findall(r"[\d.]+", run_notebook(OWN_MODEL, tmp_path))
    assert ours == recorded
    assert float(ours) > 0.8
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.parametrize(
    "script", [each for each in scripts() if each != OWN_MODEL], ids=lambda script: script.stem
)
def test_a_notebook_runs(script, tmp_path):
    """`make docs` runs them all, for the site."""
    run_notebook(script, tmp_path)


def test_cells_show_what_their_last_line_gives():
    names: dict[str, object] = {}
    assert run_cell("x = 2\nprint(x)\nx + 1", "cell", names) == ("2\n", 3)
    assert run_cell("y = x", "cell", names) == ("", None)
    script = '"""Title.\n\nAbout.\n"""\n\nx = 1\n\n# %% [markdown]\n# Text\n# more\n\n# %%\nx\n'
    assert cells_of(script) == [
        ("markdown", "# Title\n\nAbout."),
        ("code", "x = 1"),
        ("markdown", "Text\nmore"),
        ("code", "x"),
    ]
