"""Tasks with measures of their own from Python code, and training that ends without a summary."""

from __future__ import annotations

import functools

import pytest
import torch
from pyarrow import parquet
from support.tiny import tiny
from torch.nn import functional as fn

import fedrt
from fedrt.cli import main
from fedrt.errors import FedrtError, InputError, UnfinishedError
from fedrt.records.summary import Account
from fedrt.report.learning import accuracy_table, print_run

SMALL = ("rounds={global_rounds=2,edge_rounds=1,local_steps=2,gossip_steps=2}",)
DIGITS = ('learning.dataset="digits"', 'learning.model="small-cnn"')


class Judged:
    """A task with two measures."""

    measures = {"hits": "higher", "cost": "lower"}  # noqa: RUF012
    unit = 1.0

    def __init__(self, unit=1.0):
        self.unit = unit

    def output_shape(self, num_classes):
        return (num_classes,)

    def losses(self, outputs, labels):
        return fn.cross_entropy(outputs, labels, reduction="none")

    def metrics(self, outputs, labels):
        hits = (outputs.argmax(1) == labels).float()
        return {"hits": self.unit * hits, "cost": self.losses(outputs, labels)}


class MeasuresOfTheObject(Judged):
    """The same, whose measures are known once it is made."""

    measures = None

    def __init__(self):
        super().__init__()
        self.measures = dict(Judged.measures)


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(task, **asked):
    return fedrt.run(
        tiny(*SMALL, *DIGITS), settings={"learning.task": task}, progress=False, **asked
    )


TASKS = {
    "class": Judged,
    "object": Judged(),
    "partial": functools.partial(Judged, unit=1.0),
    "function": lambda: Judged(),
    "measures of the object": MeasuresOfTheObject,
}


@pytest.mark.parametrize("kind", TASKS)
def test_a_task_from_python_is_judged_by_its_own_measures(kind):
    result = train(TASKS[kind], out="run", targets=[0.01])
    outcome = result.outcome
    assert outcome["measure"]["name"] == "hits"
    assert 0 < outcome["best_hits"] <= 1
    assert outcome["further_measures"]["cost"] > 0
    assert {"hits", "edge_hits_mean", "cost"} <= set(result.rounds.columns)
    result.page()
    assert isinstance(result.model(), torch.nn.Module)


def test_a_task_may_stand_in_a_scenario_and_in_settings_alike():
    settings = {"learning.task": Judged(), "rounds.global_rounds": 1}
    read = fedrt.scenario(tiny(*SMALL, *DIGITS), settings)
    one = fedrt.run(read, out="one", progress=False)
    other = train(settings["learning.task"], rounds=1, out="other")
    assert one.outcome["best_hits"] == other.outcome["best_hits"]
    assert fedrt.check(read, {"learning.task": Judged}).learning.task.kind == "python:Judged"
    with pytest.raises(InputError, match="two different objects are named Judged"):
        fedrt.run(read, settings={"learning.optimiser": Judged()}, progress=False)


def test_a_comparison_with_such_a_task():
    task = Judged()
    policies = ["fedrt", "hfel"]
    given = {"policies": policies, "settings": {"learning.task": task}, "progress": False}
    compared = fedrt.compare(tiny(*SMALL, *DIGITS), **given)
    assert all(run["best_hits"] > 0 for runs in compared.outcomes.values() for run in runs)
    compared.page()


@pytest.mark.parametrize("unit", [float("nan"), float("inf")])
def test_a_measure_that_is_never_a_number_loses_nothing(unit, capsys):
    scenario = tiny(*SMALL, *DIGITS)
    given = {"settings": {"learning.task": Judged(unit)}, "progress": False}
    run = fedrt.run(scenario, out="run", targets=[0.5], **given)
    assert run.outcome["best_hits"] is None
    assert run.outcome["final_hits"] is None
    assert run.outcome["targets"]["0.5"]["time_s"] is None
    print_run(run.outcome, 1.0)
    assert "best hits" in capsys.readouterr().out
    run.page()
    run.model()
    compared = fedrt.compare(scenario, policies=["fedrt", "hfel"], **given)
    assert accuracy_table(compared.outcomes).row_count == 2
    compared.page()


def broken_summary(*_):
    raise KeyError("best")


def full_disk(*_):
    raise FedrtError("summary.json: cannot be written: No space left on device")


BREAKS = [(broken_summary, 1, "KeyError: 'best'"), (full_disk, 1, "No space left on device")]


@pytest.mark.parametrize(("breaks", "code", "why"), BREAKS)
def test_training_is_not_lost_where_its_summary_fails(
    breaks, code, why, tmp_path, monkeypatch, capsys
):
    words = ["run", "--out", "run", "--json"]
    for text in ("rounds.global_rounds=2", "fleet.num_devices=6", "fleet.num_edges=3"):
        words += ["--set", text]
    with monkeypatch.context() as broken:
        broken.setattr(Account, "summary", breaks)
        assert main(words) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    (line,) = (line for line in said.splitlines() if "summary" in line)
    assert line.startswith("run: all rounds are trained and saved, but the summary cannot be")
    assert why in line
    assert "go on with: fedrt run --resume run" in said
    folder = tmp_path / "run"
    assert parquet.read_table(folder / "rounds.parquet").num_rows == 2
    assert main(["export", "run", "--to", "model.pt"]) == 0
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert main(["run", "--resume", "run", "--json"]) == 0
    assert (folder / "summary.json").is_file()
    assert not list((folder / "records").glob("*"))


def test_a_round_is_saved_before_anything_is_made_of_it(tmp_path, monkeypatch):
    def add(self, done):
        raise KeyError("a column")

    with monkeypatch.context() as broken:
        broken.setattr(Account, "add", add)
        with pytest.raises(KeyError):
            fedrt.run(tiny(*SMALL, *DIGITS), out="run", progress=False)
    assert [path.name for path in (tmp_path / "run" / "records").iterdir()] == ["000000.npz"]
    assert fedrt.run(resume="run", progress=False).outcome["global_rounds"] == 2


def test_python_gets_the_error_that_says_so(monkeypatch):
    monkeypatch.setattr(Account, "summary", broken_summary)
    with pytest.raises(UnfinishedError, match="run: all rounds are trained and saved"):
        fedrt.run(tiny(*SMALL, *DIGITS), out="run", progress=False)
