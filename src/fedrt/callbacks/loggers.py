"""Loggers by name: callbacks that other tools show. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedrt.callbacks.base import Callback, RunInfo
from fedrt.callbacks.mlflow import MLflowLogger
from fedrt.callbacks.tensorboard import TensorBoardLogger
from fedrt.callbacks.wandb import WandbLogger
from fedrt.errors import InputError
from fedrt.validation import hint, problem

LOGGERS: dict[str, Callable[[RunInfo], Callback]] = {
    "tensorboard": TensorBoardLogger,
    "mlflow": MLflowLogger,
    "wandb": WandbLogger,
}
"""Every shipped logger by its name; each is made for one run."""


def check_loggers(names: Sequence[str]) -> None:
    """Raise an error about a name that is no logger's."""
    for name in names:
        if name not in LOGGERS:
            rule = f"one of {', '.join(LOGGERS)}{hint(str(name), list(LOGGERS))}"
            raise InputError(problem("`log`", name, rule))


def make_loggers(names: Sequence[str], run: RunInfo) -> list[Callback]:
    """The loggers of these names for a run."""
    check_loggers(names)
    return [LOGGERS[name](run) for name in names]
