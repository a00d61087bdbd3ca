"""Logging for TensorBoard, an optional library: files in the run's folder."""

from __future__ import annotations

from fedrt.callbacks.base import Callback, Record, RunInfo
from fedrt.callbacks.numbers import numbers_in


class TensorBoardLogger(Callback):
    """Writes the numbers of every global round into the folder `tensorboard` of the run."""

    def __init__(self, run: RunInfo) -> None:
        from fedrt.learning.board import Board

        self.board = Board(run.folder / "tensorboard", run.first)

    def round_ended(self, run: RunInfo, record: Record) -> None:
        self.board.add(record["global_round"], numbers_in(record))
