"""Logging for MLflow, an optional library."""

from __future__ import annotations

from typing import Any

from fedrt.callbacks.base import Callback, Record, RunInfo
from fedrt.callbacks.numbers import numbers_in, settings_of
from fedrt.records.summary import Summary
from fedrt.system.extras import need

FOLDER = "fedrt.folder"
"""The tag with a run's folder, by which a resumed run finds its own entry."""
LONGEST = 500
"""Characters of a setting's value that MLflow takes."""


class MLflowLogger(Callback):
    """Writes settings, the numbers of every global round and the outcome into MLflow's store.

    That is the store that MLFLOW_TRACKING_URI names, else MLflow's own default, on this machine. A
    scenario is an experiment; a run that is resumed goes on with its entry.
    """

    def __init__(self, run: RunInfo) -> None:
        need("`log` mlflow", "mlflow")
        from mlflow import MlflowClient

        self.client: Any = MlflowClient()
        known = self.client.get_experiment_by_name(run.scenario.name)
        experiment = (
            self.client.create_experiment(run.scenario.name)
            if known is None
            else known.experiment_id
        )
        place = str(run.folder.resolve())
        quoted = place.replace("'", "\\'")
        found = self.client.search_runs([experiment], f"tags.`{FOLDER}` = '{quoted}'")
        if run.first and found:
            self.id = found[0].info.run_id
            return
        made = self.client.create_run(experiment, run_name=run.name, tags={FOLDER: place})
        self.id = made.info.run_id
        for name, value in settings_of(run).items():
            self.client.log_param(self.id, name, value[:LONGEST])

    def round_ended(self, run: RunInfo, record: Record) -> None:
        for name, value in numbers_in(record).items():
            self.client.log_metric(self.id, name, value, step=record["global_round"])

    def run_ended(self, run: RunInfo, summary: Summary) -> None:
        for name, value in numbers_in(summary).items():
            self.client.log_metric(self.id, f"summary.{name}", value)
        self.client.set_terminated(self.id)
