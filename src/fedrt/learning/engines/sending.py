"""Sending trained models to their edge servers through the update codec."""

from __future__ import annotations

from torch import Tensor

from fedrt.learning.codecs import Codec, transmit
from fedrt.learning.engines.engine import DeviceResults, IntArray, TrainingOrder


class Uplink:
    """Sends the models of an order's devices and records their message sizes."""

    def __init__(
        self, codec: Codec, num_parameters: int, order: TrainingOrder, results: DeviceResults
    ) -> None:
        self.codec, self.num_parameters = codec, num_parameters
        self.order, self.results = order, results

    def send(self, place: IntArray, starts: Tensor, trained: Tensor) -> Tensor:
        """The models that the edge servers decode, for devices at the given places in the order.

        Each has trained from its row of `starts`.
        """
        before = self.order.codec_state
        states = None if before is None else before[place]
        sent = transmit(self.codec, starts, trained, states, self.num_parameters)
        self.results.sent_bytes[place] = sent.sent_bytes
        if self.results.codec_state is not None:
            self.results.codec_state[place] = sent.states
        return sent.rows
