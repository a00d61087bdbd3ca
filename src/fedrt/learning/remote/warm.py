"""First calls of compiled code, made before anybody waits for them.

On a machine that has not compiled it yet, they take many seconds, which a round's deadline would
not allow for; later ones read what was kept.
"""

from __future__ import annotations

import torch

from fedrt.learning.codecs import ErrorFeedback, make_format
from fedrt.learning.remote.device_steps import DeviceSteps
from fedrt.learning.remote.gossip import GossipSteps
from fedrt.learning.remote.orders import GossipOrder, LocalOrder
from fedrt.learning.remote.parts import CommonParts, one_thread

CODEC = "int4"
"""The whole-number codecs share their code."""
NUMBERS = 64


def warm_device(steps: DeviceSteps) -> None:
    """A local step of a device and the message that it makes, of which nothing is kept."""
    parts, correction = steps.parts, None
    if parts.scenario.learning.scaffold:
        correction = parts.pack(torch.zeros(parts.size, dtype=parts.first_model.dtype))
    is_own = parts.method.codec is not None and not isinstance(parts.method.codec, ErrorFeedback)
    order = LocalOrder(0, 0, 1, None if is_own else CODEC, correction)
    steps.train(order, parts.pack(parts.first_model), None)


@one_thread()
def warm_edge(parts: CommonParts, edge: int) -> None:
    """The reading of a message, and a step of a gossip, of which nothing is kept."""
    form = make_format(CODEC)
    form.decode(form.encode(torch.zeros(NUMBERS, dtype=parts.first_model.dtype)), NUMBERS)
    steps, neighbour = GossipSteps(parts, edge), 0 if edge else 1
    steps.begin(GossipOrder(0, 0.5, (neighbour,), (0.5,), 1, "none", ()), parts.first_model)
    steps.receive(0, {neighbour: steps.message_to(neighbour, 0)})
