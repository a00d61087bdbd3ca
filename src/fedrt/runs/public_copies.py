"""Which edge servers hold the public copies of each other's models, for gossip by differences.

Every message of a coded gossip changes its sender's public copy, and who does not get it falls
behind. What brings two servers up to date exactly is what each has missed of the other: the
messages, without their buffers, or the public copy itself, whichever is shorter. All servers code
the same number of messages of the same length, linked or not, so both directions miss the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.plan import Gossip, gossip_bits, gossip_codec
from fedrt.scenario.sizes import copy_bits
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PublicCopies:
    """What every two edge servers miss of each other's public copies."""

    behind_bits: FloatArray
    """C x C, symmetric: what each direction has to send before the next gossip of the pair."""

    @staticmethod
    def first(num_edges: int) -> PublicCopies:
        """Nobody is behind at the start: all public copies are the first model, known to all."""
        return PublicCopies(np.zeros((num_edges, num_edges)))

    def after(self, gossip: Gossip, seen: Observation) -> PublicCopies:
        """What is missed after a gossip; models that are sent as they are change no copy."""
        if gossip_codec(gossip, seen) == "none":
            return self
        missed_bits = gossip.steps * (gossip_bits(gossip, seen) - seen.buffer_bits)
        behind_bits = np.minimum(self.behind_bits + missed_bits, copy_bits(seen.model_bits))
        behind_bits[gossip.links] = 0.0
        np.fill_diagonal(behind_bits, 0.0)
        return PublicCopies(behind_bits)
