"""The learning method of a run: optimiser, codec, aggregator and task."""

from __future__ import annotations

from dataclasses import dataclass

from fedrt.learning.aggregators import Aggregator, make_aggregator
from fedrt.learning.codecs import Codec, make_codec
from fedrt.learning.optimisers import Optimiser, make_optimiser
from fedrt.learning.tasks import Task, make_task
from fedrt.scenario.model import Learning


@dataclass(frozen=True)
class Method:
    """The parts of local training that a scenario chooses, made once in every process."""

    optimiser: Optimiser
    task: Task
    aggregator: Aggregator
    codec: Codec | None
    """None: models are sent as they are."""


def make_method(learning: Learning) -> Method:
    """The method that a scenario's `[learning]` describes."""
    return Method(
        optimiser=make_optimiser(learning),
        task=make_task(learning),
        aggregator=make_aggregator(learning),
        codec=make_codec(learning),
    )
