"""The least codecs that devices may use, once their messages have left too much out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import LADDER
from fedrt.rounds import NOT_STEPPED, Outcome
from fedrt.scenario.sizes import buffer_bits, message_bits, variate_bits
from fedrt.world.observation import Observation
from fedrt.world.world import World


@dataclass(frozen=True)
class LeastCodecs:
    """For each device of a fleet, the place in `messages.LADDER` of the least codec it may use."""

    step: NDArray[np.int64]
    more_bits: float = 0.0
    """What every message has beside the parameters: buffers, and a control variate if there is."""

    @staticmethod
    def first(world: World) -> LeastCodecs:
        """Every codec may be used at the start."""
        learning = world.scenario.learning
        more_bits = buffer_bits(learning) + variate_bits(learning, world.model_bits)
        return LeastCodecs(np.zeros(world.fleet.num_devices, dtype=np.int64), more_bits)

    def after(self, outcome: Outcome) -> LeastCodecs:
        """The same after an edge round, with the devices that were stepped up in it."""
        if outcome.stepped_up is None:
            return self
        step, up = self.step.copy(), outcome.stepped_up != NOT_STEPPED
        step[outcome.device[up]] = outcome.stepped_up[up]
        return replace(self, step=step)

    def seen(self, seen: Observation) -> Observation:
        """What is observed, with the bits that messages of devices have at least."""
        step = self.step[seen.device]
        if not step.any():
            return seen
        sizes = (seen.model_bits, self.more_bits)
        bits = np.array([0.0, *(message_bits(name, *sizes) for name in LADDER[1:])])
        least_bits = bits[step] * seen.laws.header_factor
        upload_bits = np.maximum(seen.upload_bits, least_bits)
        return replace(seen, upload_bits=upload_bits, least_bits=least_bits)
