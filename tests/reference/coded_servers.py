"""Edge servers that gossip by coded differences, one by one: what each holds, and real messages.

A server has its model, its own public copy, and copies of others' public copies, which it keeps
up to date with messages alone. What it has sent it remembers, for those that were not linked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    copies: list[np.ndarray]
    """What it holds of every server's public copy, its own among them."""
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    """Every message it has made, with its codec."""
    heard: list[int] = field(default_factory=list)
    """How many messages of every server are in what it holds."""

    def catch_up(self, other: int, sender: Server) -> int:
        """Get what was missed of another server's public copy; return the bytes it took."""
        missed = sender.sent[self.heard[other] :]
        whole = encode("float32", sender.copies[other])
        if sum(len(message) for _, message in missed) < len(whole):
            for codec, message in missed:
                self.copies[other] = self.copies[other] + decode(codec, message)
            took = sum(len(message) for _, message in missed)
        else:
            self.copies[other] = decode("float32", whole).copy()
            took = len(whole)
        self.heard[other] = len(sender.sent)
        return took if missed else 0


def first_servers(models: np.ndarray, size: int, first: np.ndarray) -> list[Server]:
    """Servers with these models, one per row, that all know the first model."""
    count = len(models)
    return [
        Server(
            models[c, :size].copy(),
            models[c, size:].astype(np.float32),
            [first[:size].astype(np.float32) for _ in range(count)],
            heard=[0] * count,
        )
        for c in range(count)
    ]


def gossip(
    servers: list[Server],
    links: np.ndarray,
    plain: np.ndarray,
    weights: np.ndarray,
    steps: int,
    codec: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Let the servers gossip; return the bytes of catching up and of the steps, from row to column.

    `plain` are the weights of buffers, `weights` those of parameters.
    """
    behind, took = np.zeros(links.shape), np.zeros(links.shape)
    pairs = [(c, j) for c in range(len(links)) for j in range(len(links)) if links[c, j]]
    for c, j in pairs:
        behind[j, c] = servers[c].catch_up(j, servers[j])
    for _ in range(steps):
        mail = [
            (send(c, server, codec), server.buffers.tobytes()) for c, server in enumerate(servers)
        ]
        for c, j in pairs:
            message, buffers = mail[j]
            took[j, c] += len(message) + len(buffers)
            servers[c].copies[j] = servers[c].copies[j] + decode(codec, message)
            servers[c].heard[j] += 1
        theirs = [np.frombuffer(buffers, np.float32).astype(np.float64) for _, buffers in mail]
        for c, server in enumerate(servers):
            move(c, server, weights[c], plain[c], theirs)
    for c, j in pairs:
        assert servers[c].copies[j].tobytes() == servers[j].copies[j].tobytes()
        assert servers[c].heard[j] == len(servers[j].sent)
    return behind, took


def send(c: int, server: Server, codec: str) -> bytes:
    """The message of a server, which changes its own public copy as it does its neighbours'."""
    message = encode(codec, (server.model - server.copies[c]).astype(np.float32))
    server.sent.append((codec, message))
    server.copies[c] = server.copies[c] + decode(codec, message)
    server.heard[c] += 1
    return message


def move(
    c: int, server: Server, weights: np.ndarray, plain: np.ndarray, theirs: list[np.ndarray]
) -> None:
    """Move a server's model by the copies that it holds; mix its buffers with its neighbours'."""
    total = server.model.astype(np.float64)
    mixed = plain[c] * theirs[c]
    for j in range(len(weights)):
        if j != c and weights[j] != 0:
            total = total + weights[j] * (server.copies[j].astype(np.float64) - server.copies[c])
            mixed = mixed + plain[j] * theirs[j]
    server.model = total.astype(server.model.dtype)
    server.buffers = mixed.astype(np.float32)
