"""The learning method of a run: optimiser, schedule, codec, aggregator and task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.learning.aggregators import Aggregator, make_aggregator
from fedrt.learning.codecs import Codec, make_codec
from fedrt.learning.optimisers import Optimiser, Rate, make_optimiser
from fedrt.learning.optimisers.schedules import RateRule
from fedrt.learning.servers import ServerOptimiser, make_server_optimiser
from fedrt.learning.tasks import Task, make_task
from fedrt.learning.transforms import Chain, make_chain
from fedrt.scenario.model import Scenario

IntArray = NDArray[np.int64]


class StepInputs(NamedTuple):
    """What the local steps of an edge round need besides models and samples."""

    rate: float | None = None
    """The learning rate; None: the scenario's."""
    corrections: Tensor | None = None
    """What SCAFFOLD adds to the gradients of each device, one in each row; None: nothing."""

    def of(self, n: int) -> StepInputs:
        """The inputs of the n-th device alone."""
        held = self.corrections
        return self if held is None else self._replace(corrections=held[n : n + 1])


@dataclass(frozen=True)
class Method:
    """The parts of local training that a scenario chooses, made once in every process."""

    optimiser: Optimiser
    """The optimiser with the scenario's learning rate."""
    task: Task
    aggregator: Aggregator
    codec: Codec | None
    """None: models are sent as they are."""
    chain: Chain
    """What happens to updates before they are coded."""
    server_optimiser: ServerOptimiser | None
    """None: the average of the devices' models is the edge server's new one."""
    rates: RateRule
    optimiser_with: Callable[[Rate], Optimiser]
    """The optimiser with another learning rate."""

    def sends_updates(self, chosen: object) -> bool:
        """Whether devices send updates, and not whole models; `chosen`: a plan's codecs, if any."""
        return self.codec is not None or chosen is not None or bool(self.chain)

    def inputs_at(self, t: int) -> StepInputs:
        """What local steps need in a global round."""
        return StepInputs(rate=self.rates.at(t) if self.rates.changes else None)

    def mean_gradients(
        self, t: int, starts: Tensor, trained: Tensor, corrections: Tensor, steps: IntArray
    ) -> NDArray[Any]:
        """The mean of each device's gradients in its local steps, of what plain SGD has changed.

        A step is the rate times gradient and correction, so that (start - end) / (rate steps) less
        the correction is the mean gradient: option II of SCAFFOLD. Of a device without a step it
        means nothing.
        """
        size = corrections.shape[1]
        by = torch.as_tensor(self.rates.at(t) * np.maximum(steps, 1), device=starts.device)
        moved = (starts[:, :size] - trained[:, :size]) / by[:, None].to(starts.dtype)
        found: NDArray[Any] = (moved - corrections).cpu().numpy()
        return found

    def optimiser_for(self, given: StepInputs) -> Optimiser:
        """The optimiser with the learning rate of an edge round."""
        return self.optimiser if given.rate is None else self.optimiser_with(given.rate)


def make_method(scenario: Scenario) -> Method:
    """The method that a scenario describes."""
    learning = scenario.learning
    return Method(
        optimiser=make_optimiser(learning, learning.learning_rate),
        task=make_task(learning),
        aggregator=make_aggregator(learning),
        codec=make_codec(learning),
        chain=make_chain(learning),
        server_optimiser=make_server_optimiser(learning),
        rates=RateRule(scenario),
        optimiser_with=partial(make_optimiser, learning),
    )
