"""Results of devices as an edge server gets them: checked, and read as models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from fedrt.errors import MessageError
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.learning.remote.orders import LocalOrder, LocalResult
from fedrt.learning.remote.parts import CommonParts
from fedrt.learning.transforms.base import UpdateKey
from fedrt.rounds import NOT_FINITE, WRONG_SHAPE

KEPT = 2**25
"""Numbers of models that are read once, to be checked, and kept for the average."""


class WrongResultError(MessageError):
    """Raised about a result that no device sends, with its place in `rounds.REASONS`."""

    def __init__(self, why: str, kind: int) -> None:
        self.kind = kind
        super().__init__(why)


def read_model(parts: CommonParts, order: LocalOrder, result: LocalResult, start: Tensor) -> Tensor:
    """The model that a device sends; an error if there is anything wrong with its result."""
    numbers = (result.loss_sum, result.largest)
    if not all(map(math.isfinite, numbers)):
        raise WrongResultError(
            "the loss or the model is not finite: its training diverged", NOT_FINITE
        )
    norms = (result.update_norm, result.left_norm, result.train_s)
    if any(number < 0 for number in norms):
        raise WrongResultError("a norm or a time is below 0", WRONG_SHAPE)
    try:
        model = parts.received(result.message, order.codec, start)
        key = UpdateKey(parts.seed, order.t, order.r, order.device)
        model = parts.method.chain.received(model, start, parts.size, key)
        if (result.variate is None) != (order.correction is None):
            raise MessageError("a variate comes with a correction, and only then")
        if result.variate is not None:
            parts.unpack(result.variate, "the variate", parts.size)
    except MessageError as error:
        kind = NOT_FINITE if "not finite" in str(error) else WRONG_SHAPE
        raise WrongResultError(str(error), kind) from None
    return model


class Arrived:
    """The results of an order's devices, handed out one after the other as an engine does."""

    def __init__(
        self,
        parts: CommonParts,
        orders: Sequence[LocalOrder],
        results: Mapping[int, LocalResult],
        start: Tensor,
    ) -> None:
        self.parts, self.results, self.start = parts, results, start
        self.orders = {order.device: order for order in orders}
        self.kept: dict[int, Tensor] = {}
        self.room = KEPT // max(1, parts.model.size)

    def check(self, device: int) -> None:
        """Raise an error if there is anything wrong with a device's result."""
        model = self._model(device)
        if len(self.kept) < self.room:
            self.kept[device] = model

    def _model(self, device: int) -> Tensor:
        if device in self.kept:
            return self.kept.pop(device)
        return read_model(self.parts, self.orders[device], self.results[device], self.start)

    def in_turn(
        self, models: Tensor, order: TrainingOrder, filled: DeviceResults
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield each device's place in the order and its model; fill in the results."""
        for n, device in enumerate(order.devices.tolist()):
            result, model = self.results[device], self._model(device)
            filled.loss_sum[n], filled.largest[n] = result.loss_sum, float(model.abs().max())
            filled.update_norm[n], filled.left_norm[n] = result.update_norm, result.left_norm
            filled.sent_bytes[n] = len(result.message)
            if filled.variate is not None and result.variate is not None:
                size = self.parts.size
                filled.variate[n] = self.parts.unpack(result.variate, "the variate", size).numpy()
            yield n, model
