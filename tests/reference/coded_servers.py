"""Edge servers that gossip by coded differences, one by one: what each holds, and real messages.

A server has its model, and for every other server two copies: what it has told that one of its own
model, and what it has heard of the other's. They change by messages alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedrt.learning.codecs import make_format


def encode(codec: str, numbers: np.ndarray) -> bytes:
    return make_format(codec).encode(torch.from_numpy(numbers))


def decode(codec: str, message: bytes) -> np.ndarray:
    return make_format(codec).decode(message).numpy()


@dataclass
class Server:
    """One edge server."""

    model: np.ndarray
    buffers: np.ndarray
    told: list[np.ndarray]
    """For every server, what that one knows of this one's model."""
    heard: list[np.ndarray]
    """For every server, what this one knows of its model."""

    def message_for(self, other: int, codec: str) -> bytes:
        """The message for another server, which changes what it has been told."""
        message = encode(codec, (self.model - self.told[other]).astype(np.float32))
        self.told[other] = self.told[other] + decode(codec, message)
        return message

    def hear(self, other: int, message: bytes, codec: str) -> None:
        """Add a message of another server to what is known of its model."""
        self.heard[other] = self.heard[other] + decode(codec, message)


def first_servers(models: np.ndarray, size: int, first: np.ndarray) -> list[Server]:
    """Servers with these models, one per row, that all know the first model."""
    count = len(models)

    def known() -> list[np.ndarray]:
        return [first[:size].astype(np.float32) for _ in range(count)]

    return [
        Server(models[c, :size].copy(), models[c, size:].astype(np.float32), known(), known())
        for c in range(count)
    ]


def gossip(
    servers: list[Server],
    links: np.ndarray,
    plain: np.ndarray,
    weights: np.ndarray,
    steps: int,
    codec: str,
) -> np.ndarray:
    """Let the servers gossip; return the bytes of the steps, from row to column.

    `plain` are the weights of buffers, `weights` those of parameters.
    """
    took = np.zeros(links.shape)
    pairs = [(c, j) for c in range(len(links)) for j in range(len(links)) if links[c, j]]
    for _ in range(steps):
        mail = {(c, j): servers[c].message_for(j, codec) for c, j in pairs}
        buffers = [server.buffers.tobytes() for server in servers]
        for (c, j), message in mail.items():
            took[c, j] += len(message) + len(buffers[c])
            servers[j].hear(c, message, codec)
        theirs = [np.frombuffer(each, np.float32).astype(np.float64) for each in buffers]
        for c, server in enumerate(servers):
            move(c, server, weights[c], plain[c], theirs)
    for c, server in enumerate(servers):
        for j, other in enumerate(servers):
            assert server.told[j].tobytes() == other.heard[c].tobytes()
    return took


def move(
    c: int, server: Server, weights: np.ndarray, plain: np.ndarray, theirs: list[np.ndarray]
) -> None:
    """Move a server's model by the copies that it holds; mix its buffers with its neighbours'."""
    total = server.model.astype(np.float64)
    mixed = plain[c] * theirs[c]
    for j in range(len(weights)):
        if j != c and weights[j] != 0:
            apart = server.heard[j].astype(np.float64) - server.told[j]
            total = total + weights[j] * apart
            mixed = mixed + plain[j] * theirs[j]
    server.model = total.astype(server.model.dtype)
    server.buffers = mixed.astype(np.float32)
