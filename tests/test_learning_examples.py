"""The examples that learn, in small form: each gets better at what it is about."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.paths import EXAMPLES

from fedrt.cli import main
from fedrt.learning.setup import make_setup
from fedrt.runs.loop import make_world
from fedrt.scenario import load_scenario
from fedrt.system.plugins import set_own_folder

SMALL = ("rounds.global_rounds=3", "learning.evaluate_every=1")


@pytest.fixture(autouse=True)
def in_examples(monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(EXAMPLES)
    set_own_folder(str(EXAMPLES))
    yield
    set_own_folder(None)


def trained(name: str, tmp_path, capsys, *settings: str) -> tuple[dict, list[float]]:
    """The summary of a short run, and its measure after each round."""
    from pyarrow import parquet

    words = [word for text in (*SMALL, *settings) for word in ("--set", text)]
    out = tmp_path / "run"
    given = ["--allow-code", "--json", "--device", "cpu", "--workers", "1", "--out", str(out)]
    assert main(["run", f"{name}.toml", *words, *given]) == 0
    summary = json.loads(capsys.readouterr().out)
    measure = summary.get("measure", {"name": "accuracy"})["name"]
    return summary, parquet.read_table(out / "rounds.parquet")[measure].to_pylist()


def test_characters(tmp_path, capsys):
    """Three rounds beat the commonest letter, the blank; a blank in five places or so."""
    summary, values = trained("characters", tmp_path, capsys, "rounds.local_steps=4")
    import characters

    y = characters.data()["y_test"]
    commonest = np.bincount(y.ravel()).max() / y.size
    assert values[-1] > commonest
    assert summary["further_measures"]["perplexity"] < 20 < len(characters.LETTERS)


def test_diabetes(tmp_path, capsys):
    """The error is below that of the mean, though practices differ in their patients' age."""
    summary, values = trained("diabetes", tmp_path, capsys, "rounds.local_steps=20")
    import diabetes

    found = diabetes.data()
    of_mean = float(np.std(found["y_test"] - found["y_train"].mean()))
    assert values[-1] < of_mean
    assert summary["further_measures"]["device_rmse_worst"] > values[-1]


def test_transformer(tmp_path, capsys):
    _, values = trained("transformer", tmp_path, capsys, "rounds.local_steps=10")
    assert values[-1] > max(0.3, values[0])


def test_fine_tuning(tmp_path, capsys, monkeypatch):
    """The head alone is sent: 645 numbers of 32 bit."""
    import fine_tuning

    monkeypatch.setattr(fine_tuning, "BODY", tmp_path / "body.pt")
    fine_tuning.pretrain(steps=40)
    summary, values = trained("fine_tuning", tmp_path, capsys)
    assert values[-1] > 0.5
    from pyarrow import parquet

    sent = parquet.read_table(tmp_path / "run" / "devices.parquet")["upload_bytes"].to_pylist()
    assert set(sent) == {4.0 * 645}
    assert summary["final_accuracy"] == values[-1]


@pytest.mark.parametrize("name", ["characters", "transformer"])
def test_stacked_training_is_sequential_training(name):
    from support.own_parts import order_of

    scenario = load_scenario(f"{name}.toml", ['learning.dtype="float64"', "learning.batch_size=4"])
    found = {}
    for engine in ("sequential", "stacked"):
        setup = make_setup(make_world(scenario, 0), engine=engine, chunk=8, workers=1)
        models = setup.first_model.repeat(setup.world.fleet.num_edges, 1)
        done = setup.engine.train(models, order_of(setup))
        found[engine] = (done.loss_sum, setup.evaluate(models[:1]))
    for one, two in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
