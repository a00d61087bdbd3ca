"""The least codecs that devices may use, once their messages have left too much out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import LADDER
from fedrt.rounds import NOT_STEPPED, Outcome
from fedrt.scenario.sizes import message_bits
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class LeastCodecs:
    """For each device of a fleet, the place in `messages.LADDER` of the least codec it may use."""

    step: NDArray[np.int64]

    @staticmethod
    def first(num_devices: int) -> LeastCodecs:
        """Every codec may be used at the start."""
        return LeastCodecs(np.zeros(num_devices, dtype=np.int64))

    def after(self, outcome: Outcome) -> LeastCodecs:
        """The same after an edge round, with the devices that were stepped up in it."""
        if outcome.stepped_up is None:
            return self
        step, up = self.step.copy(), outcome.stepped_up != NOT_STEPPED
        step[outcome.device[up]] = outcome.stepped_up[up]
        return LeastCodecs(step)

    def seen(self, seen: Observation) -> Observation:
        """What is observed, with the bits that messages of devices have at least."""
        step = self.step[seen.device]
        if not step.any():
            return seen
        sizes = (seen.model_bits, seen.buffer_bits)
        bits = np.array([0.0, *(message_bits(name, *sizes) for name in LADDER[1:])])
        least_bits = bits[step]
        upload_bits = np.maximum(seen.upload_bits, least_bits)
        return replace(seen, upload_bits=upload_bits, least_bits=least_bits)
