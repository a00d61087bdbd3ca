"""One more part of every kind, each as a file of the package would have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrt.scenario.physical import RateLaw
from fedrt.scenario.tables.fields import setting
from fedrt.validation import Real


@dataclass(frozen=True)
class SignDescent:
    """Steps of one length in every coordinate, which shrinks."""

    kind: ClassVar[str] = "sign"
    decay: float = setting(Real(least=0, most=1), 1.0)
    """What a step is multiplied by after each."""
    learning_rate: float = 0.0

    def init(self, parameters):
        return []

    def update(self, parameters, gradients, state, step):
        rate = self.learning_rate * self.decay**step
        return [w - rate * g.sign() for w, g in zip(parameters, gradients, strict=True)], state


class HalfWay:
    """Half of the averaged update."""

    def init(self, models):
        return []

    def update(self, models, change, state):
        return models + change / 2, state


class First:
    """The first device's model."""

    def aggregate(self, model, rows, share):
        return rows[0].double()


class Squares:
    """Squared scores."""

    measures = ()

    def output_shape(self, num_classes, inputs):
        return (num_classes,)

    def losses(self, outputs, labels):
        return outputs.square().sum(1)


@dataclass(frozen=True)
class Steady(RateLaw):
    """An SNR that is the same for all, always."""

    kind: ClassVar[str] = "steady"
    process: ClassVar[str] = "support.one_more:SteadyChannel"
    level_db: float = setting(Real(least=-50, most=50), 0.0)
    """The SNR."""


class SteadyChannel:
    """The channel with these settings."""

    def __init__(self, settings, fleet, rounds, seed):
        self.level_db, self.devices = settings.level_db, fleet.num_devices

    def snr_db(self, t, r):
        return np.full(self.devices, self.level_db)
