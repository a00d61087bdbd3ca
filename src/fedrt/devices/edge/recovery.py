"""An edge server that has lost its state gets its model back, and goes on from it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from fedrt.devices.common.threads import in_thread
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.errors import InputError
from fedrt.messages import Raw

if TYPE_CHECKING:
    from fedrt.devices.edge.server import EdgeNode

log = logging.getLogger(__name__)


async def restored(node: EdgeNode, head: pb.RestoreHead, model: Raw) -> None:
    """Take a model of this server back, as a state in which nothing else is remembered."""
    states = node.states_of(head.run, head.label)
    async with node.at_work():
        if states.has(head.label):
            return
        assert node.model is not None
        numbers = node.model.unpacked(model)
        first = node.first["models"]
        if numbers.size != first.size or not np.isfinite(numbers).all():
            raise InputError(f"edge {node.number}: gets a model back that is none of its own")
        arrays = {**node.first, "models": numbers.reshape(first.shape).astype(first.dtype)}
        await in_thread(states.save, head.label, arrays, b"")
        log.warning("edge %d: had lost its state; goes on from a model that came back", node.number)
