"""An edge server's model is opened once, however long that takes and whoever stops waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from fedrt.devices.common.threads import in_thread
from fedrt.devices.edge.states import Arrays
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.errors import FedrtError
from fedrt.scenario import Scenario

if TYPE_CHECKING:
    from fedrt.learning.remote import EdgeModelProcess


class Opening:
    """The model of an edge server and its first state, while they are opened.

    A slow machine may take longer to load torch than the coordinator waits for an answer: the next
    question has to find what the one before has begun.
    """

    def __init__(self, scenario: Scenario, seed: int, number: int) -> None:
        self.scenario, self.seed, self.number = scenario, seed, number
        self._task: asyncio.Future[tuple[EdgeModelProcess, Arrays]] | None = None

    async def model(self, inputs: pb.Inputs) -> tuple[EdgeModelProcess, Arrays]:
        """The model and its first state."""
        if self._task is None:
            self._task = asyncio.ensure_future(in_thread(self._open, inputs))
        try:
            return await asyncio.shield(self._task)
        finally:
            if self._task.done():
                self._task = None

    def _open(self, inputs: pb.Inputs) -> tuple[EdgeModelProcess, Arrays]:
        from fedrt.learning.remote import EdgeModelProcess, ModelInputs

        given = ModelInputs(tuple(inputs.shape), inputs.num_classes, inputs.integers)
        model = EdgeModelProcess(self.scenario, self.seed, self.number, given)
        return model, model.state()

    async def close(self) -> None:
        """End the model that nobody waits for any more."""
        if self._task is not None:
            with suppress(FedrtError):
                model, _ = await self._task
                await in_thread(model.rest)
