"""The loggers for real, where their libraries are installed."""

from __future__ import annotations

import pytest
from support.tiny import tiny

import fedrt

SMALL = (
    "rounds={global_rounds=2,edge_rounds=1,local_steps=2,gossip_steps=1}",
    "learning.evaluate_every=1",
)
QUICK = {"engine": "sequential", "device": "cpu", "progress": False}


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Stops(fedrt.Callback):
    """Stops a run before its second round."""

    def round_begins(self, run, t):
        if t == 1:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore")  # of the library's own parts
def test_mlflow_has_every_round_of_a_run_that_was_stopped_in_between(where, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: 'fedrt[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{where}/mlflow.db")
    with pytest.raises(KeyboardInterrupt):
        fedrt.run(tiny(*SMALL), log="mlflow", callbacks=[Stops()], out="run", **QUICK)
    run = fedrt.run(resume="run", progress=False)
    client = mlflow.MlflowClient()
    (experiment,) = [each for each in client.search_experiments() if each.name == "tiny"]
    (logged,) = client.search_runs([experiment.experiment_id])
    assert logged.info.run_name == "fedrt-0"
    assert logged.info.status == "FINISHED"
    assert logged.data.params["fleet.num_devices"] == "7"
    for name in ("accuracy", "loss", "ends_at_s"):
        history = client.get_metric_history(logged.info.run_id, name)
        assert [each.step for each in history] == [0, 1]
        assert [each.value for each in history] == run.rounds[name].tolist()
    assert logged.data.metrics["summary.final_accuracy"] == run.outcome["final_accuracy"]


@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_writes_files_without_a_network(where, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed: 'fedrt[wandb]'")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fedrt.run(tiny(*SMALL), log="wandb", **QUICK)
    (written,) = where.rglob("*.wandb")
    assert written.stat().st_size > 0
