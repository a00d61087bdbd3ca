"""The local steps of one device, and the message that it makes of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.data.batches import Batches
from fedrt.data.split import OwnSamples
from fedrt.errors import InputError
from fedrt.learning.codecs import Codec, ErrorFeedback
from fedrt.learning.codecs.base import encode_checked
from fedrt.learning.engines.edge_servers import with_codecs
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.engines.sending import Uplink
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.material import check_labels
from fedrt.learning.models.architectures import check_trains, model_code
from fedrt.learning.remote.orders import LocalOrder, LocalResult, ModelInputs
from fedrt.learning.remote.parts import DRAWING, CommonParts, one_thread, open_parts, some_threads
from fedrt.learning.transforms import Chain
from fedrt.messages import Raw
from fedrt.scenario.model import Scenario

IntArray = NDArray[np.int64]

CODEC = "int4"
"""Stands for all codecs of whole numbers, which share their code."""


@dataclass(frozen=True)
class DeviceSteps:
    """A device's model and samples, and the engine that trains them."""

    parts: CommonParts
    engine: SequentialEngine
    number: int

    @staticmethod
    def open(scenario: Scenario, seed: int, number: int, own: OwnSamples) -> DeviceSteps:
        """What a device needs to train its own samples."""
        learning, dataset = scenario.learning, own.dataset(training=True)
        parts = open_parts(scenario, seed, ModelInputs(own.shape, own.num_classes, own.integers))
        check_labels(learning, dataset)
        module, integers = parts.model.module, own.integers
        check_trains(module, learning.model, own.shape, learning.batch_size, integers)
        device, dtype = torch.device("cpu"), parts.first_model.dtype
        samples = TensorSamples(dataset, dtype, device, learning.normalise)
        # All that comes before this device draws as it would, and has no samples here.
        others: list[IntArray] = [np.zeros(0, dtype=np.int64)] * number
        mine = np.arange(len(own.labels), dtype=np.int64)
        engine = SequentialEngine(
            parts.model,
            samples,
            Batches([*others, mine], learning.batch_size, seed),
            replace(parts.method, codec=None, chain=Chain()),
            augment=learning.augment,
            half=learning.dtype == "bfloat16",
        )
        return DeviceSteps(parts, engine, number)

    def warm(self) -> None:
        """Make a local step and the message of it, of which nothing is kept.

        What has to be compiled then is: on a new machine that takes many seconds, which the
        deadline of a first round would not allow for.
        """
        parts, correction = self.parts, None
        if parts.scenario.learning.scaffold:
            correction = parts.pack(torch.zeros(parts.size, dtype=parts.first_model.dtype))
        codec = parts.method.codec
        is_own = codec is not None and not isinstance(codec, ErrorFeedback)
        order = LocalOrder(0, 0, 1, None if is_own else CODEC, correction)
        self.train(order, parts.pack(parts.first_model), None, None, nullcontext())

    def train(
        self,
        order: LocalOrder,
        model: Raw,
        left: NDArray[Any] | None,
        after_step: Callable[[], None] | None,
        held: AbstractContextManager[Any],
        threads: int | None = None,
    ) -> tuple[LocalResult, NDArray[Any] | None]:
        """What a device sends after the steps of an order, and what its message then leaves."""
        parts = self.parts
        start = parts.unpack(model, "the model")
        whole = self._order(order)
        self.engine.after_step = after_step
        count = torch.get_num_threads() if threads is None else threads
        with DRAWING, some_threads(count), model_code(parts.model.module), held:
            began = time.monotonic()
            rows, results = self.engine.train_rows(start[None], whole)
            train_s = time.monotonic() - began
        finite = np.isfinite(results.largest[0]) and np.isfinite(results.loss_sum[0])
        message, after = b"", left
        if finite:
            with one_thread():
                message, after = self._coded(order, whole, start, rows[0], left, results)
        return LocalResult(
            message,
            float(results.loss_sum[0]),
            float(results.largest[0]),
            float(results.update_norm[0]),
            float(results.left_norm[0]),
            train_s,
            None if results.variate is None else parts.pack(results.variate[0]),
        ), after

    def _order(self, order: LocalOrder) -> TrainingOrder:
        """The order of this device alone, for the engine."""
        one, correction = np.zeros(1, dtype=np.int64), None
        if order.correction is not None:
            read = self.parts.unpack(order.correction, "the correction", self.parts.size)
            correction = read[None].numpy()
        return TrainingOrder(
            t=order.t,
            r=order.r,
            devices=np.array([self.number]),
            edge_of_device=one,
            local_steps=np.array([order.local_steps]),
            weight=np.ones(1),
            correction=correction,
            seed=self.parts.seed,
        )

    def _coded(
        self,
        order: LocalOrder,
        whole: TrainingOrder,
        start: Tensor,
        state: Tensor,
        left: NDArray[Any] | None,
        results: DeviceResults,
    ) -> tuple[bytes, NDArray[Any] | None]:
        """The message of a trained model, and what is left then; completes the results."""
        parts, codec = self.parts, self.parts.method.codec
        name = codec.name if isinstance(codec, ErrorFeedback) else None
        name = order.codec if order.codec is not None else name
        chain, size, key = parts.method.chain, parts.size, whole.key(0)
        if name is None and codec is None and not chain:
            return parts.pack(state), left
        held = self._states(codec if name is None else ErrorFeedback("float32"), left)
        row, update = None if held is None else held[0], state[:size] - start[:size]
        update, after = chain.apply(update, chain.part(row, size, coded=name is not None), key)
        if name is not None:
            assert held is not None
            message = parts.format_of(name).encode(update + held[0, :size])
            sent = parts.join(message, state)
            one = replace(whole, codec_state=held, state_row=np.zeros(1, dtype=np.int64))
            given = (codec, size, with_codecs(one, [name]), results)
            uplink = Uplink(*given, chain=chain, mirrored=False)
            uplink.send_one(0, start[None], 0, state)
            return sent, held[0].numpy()
        if codec is None:
            state[:size] = start[:size] + update
            sent = parts.pack(state)
        else:
            message, remembered = encode_checked(codec, update, None if chain.remembers else row)
            sent, after = parts.join(message, state), remembered if after is None else after
        return sent, None if after is None else after.cpu().numpy()

    def _states(self, codec: Codec | None, left: NDArray[Any] | None) -> Tensor | None:
        """What is left to send, in a row of its own; that of a first message where none is."""
        given = (codec, 1, self.parts.size, self.parts.first_model)
        first = self.parts.method.chain.first_states(*given)
        if left is None or first is None:
            return first
        if left.shape != first.shape[1:]:
            raise InputError(f"the saved state: left is {left.shape}: must be {first.shape[1:]}")
        return torch.from_numpy(np.array(left))[None].to(first)
