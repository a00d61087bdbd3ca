"""Logging for Weights & Biases, an optional library, without a network unless it is asked for."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any

from fedrt.callbacks.base import Callback, Record, RunInfo
from fedrt.callbacks.numbers import numbers_in, settings_of
from fedrt.records.summary import Summary
from fedrt.system.extras import need


class WandbLogger(Callback):
    """Writes settings, the numbers of every global round and the outcome into the folder `wandb`.

    Offline, for `wandb sync`, unless WANDB_MODE says otherwise; WANDB_DIR names another folder. A
    scenario is a project.
    """

    def __init__(self, run: RunInfo) -> None:
        need("`log` wandb", "wandb")
        import wandb

        place = str(run.folder.resolve())
        self.run: Any = wandb.init(
            mode=os.environ.get("WANDB_MODE") or "offline",
            project=run.scenario.name.replace("/", "-"),
            name=run.name,
            id=blake2b(place.encode(), digest_size=8).hexdigest(),
            resume="allow",
            reinit="create_new",
            config=settings_of(run),
            settings=wandb.Settings(silent=True),
        )

    def round_ended(self, run: RunInfo, record: Record) -> None:
        self.run.log(numbers_in(record), step=record["global_round"])

    def run_ended(self, run: RunInfo, summary: Summary) -> None:
        self.run.summary.update(numbers_in(summary))
        self.run.finish()
