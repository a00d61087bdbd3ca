"""The gossip of one edge server, step by step, with messages from and for its neighbours.

Each step is that of `learning.gossip` or, with a codec, of `learning.coded_gossip`, for one server:
the same sums in the same order, and so the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import InputError, MessageError
from fedrt.learning.codecs import make_format
from fedrt.learning.coded_gossip import KnownModels
from fedrt.learning.gossip import Links
from fedrt.learning.remote.orders import GossipOrder
from fedrt.learning.remote.parts import CommonParts, read_numbers
from fedrt.messages import Raw, message_bytes

FLOAT32 = np.dtype("<f4")


class GossipSteps:
    """What an edge server has sent and knows, before, in and after a gossip."""

    def __init__(self, parts: CommonParts, edge: int) -> None:
        self.parts, self.edge = parts, edge
        self.order: GossipOrder | None = None
        self.step = 0
        """The steps that are done."""
        self.ended = False
        """Whether the model after all steps has been handed out."""
        self.model = parts.first_model
        """After these."""
        self.copies = KnownModels.none(parts.first_model[: parts.size])
        """What neighbours know of its model, and what it knows of theirs."""
        self.sent: dict[tuple[int, int], bytes] = {}
        """The messages of the present step and the one before, by step and neighbour."""

    def begin(self, order: GossipOrder, model: Tensor) -> None:
        """Begin a gossip from a model; one that has begun goes on."""
        if order == self.order:
            return
        if (wrong := order.problem(self.edge)) is not None:
            raise InputError(f"edge {self.edge}: a gossip with {wrong}")
        if self.order is not None and not self.ended:
            raise InputError(f"edge {self.edge}: the gossip of round {self.order.t} goes on")
        self.order, self.step, self.sent, self.ended = order, 0, {}, False
        self.model = model.clone()
        if order.codec != "none":
            if order.anew:
                self._forget(order.anew)
            pairs = [(self.edge, j) for j in order.neighbours]
            pairs += [(j, self.edge) for j in order.neighbours]
            wanted = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            self.copies, _ = self.copies.with_pairs(wanted, self._first())
            # Buffers go as float32 in all steps, and come back as the model has them.
            self.model[self.parts.size :] = self.model[self.parts.size :].float()

    def _first(self) -> Tensor:
        return self.parts.first_model[: self.parts.size]

    def _rows(self, order: GossipOrder) -> tuple[list[int], list[int]]:
        """The rows of the copies of its own model, and of those of its neighbours' models."""
        place = {(c, j): row for row, (c, j) in enumerate(self.copies.pairs.tolist())}
        own = [place[self.edge, j] for j in order.neighbours]
        return own, [place[j, self.edge] for j in order.neighbours]

    def message_to(self, neighbour: int, step: int) -> bytes:
        """The message for a neighbour in the present step or the one before."""
        order = self._present()
        if neighbour not in order.neighbours:
            raise InputError(f"edge {self.edge}: server {neighbour} is no neighbour in this gossip")
        if (step, neighbour) not in self.sent:
            if step != self.step or step >= order.steps:
                raise InputError(f"edge {self.edge}: is at gossip step {self.step}, not {step}")
            self._code(order)
        return self.sent[step, neighbour]

    def _code(self, order: GossipOrder) -> None:
        """Make the messages of the present step."""
        if order.codec == "none":
            message = self.parts.pack(self.model)
            self.sent |= {(self.step, j): message for j in order.neighbours}
            return
        own, _ = self._rows(order)
        form, size = make_format(order.codec), self.parts.size
        for row, j in zip(own, order.neighbours, strict=True):
            apart = self.model[:size] - self.copies.held[row]
            self.sent[self.step, j] = self.parts.join(form.encode(apart), self.model)

    def problem(self, message: Raw) -> str | None:
        """What is wrong with a neighbour's message; None if nothing is."""
        try:
            self._read(self._present(), message)
        except MessageError as error:
            return str(error)
        return None

    def _read(self, order: GossipOrder, message: Raw) -> tuple[Tensor, Tensor]:
        """The parameters, or the difference, and the buffers in a message."""
        size, whole = self.parts.size, self.parts.model.size
        if order.codec == "none":
            found = self.parts.unpack(message, "message")
            return found[:size], found[size:]
        cut = message_bytes(order.codec, size)
        if len(message) != cut + FLOAT32.itemsize * (whole - size):
            length = cut + FLOAT32.itemsize * (whole - size)
            raise MessageError(f"message: has {len(message)} bytes: must have {length}")
        apart = make_format(order.codec).decode(bytes(message[:cut]), size)
        return apart, read_numbers(message[cut:], "message: its buffers", whole - size, FLOAT32)

    def _read_from(self, j: int, order: GossipOrder, message: Raw) -> tuple[Tensor, Tensor]:
        """The same, where an error names the neighbour that has sent it."""
        try:
            return self._read(order, message)
        except MessageError as error:
            raise MessageError(f"edge-{j} sends a {error}") from None

    def receive(self, step: int, messages: Mapping[int, Raw]) -> None:
        """Carry out a step; an error, and nothing is done, if a message is wrong or missing."""
        order = self._present()
        if step != self.step or step >= order.steps:
            raise InputError(f"edge {self.edge}: is at gossip step {self.step}, not {step}")
        missing = [j for j in order.neighbours if j not in messages]
        if missing:
            raise InputError(f"edge {self.edge}: no message of server {missing[0]} in step {step}")
        read = [self._read_from(j, order, messages[j]) for j in order.neighbours]
        if any((step, j) not in self.sent for j in order.neighbours):
            self._code(order)
        first, rest = self.model[: self.parts.size], self.model[self.parts.size :]
        if order.codec == "none":
            first = self._mixed(order, first, [found for found, _ in read])
        else:
            first = self._moved(order, [apart for apart, _ in read])
            rest = rest.float()
        rest = self._mixed(order, rest, [buffers.to(rest) for _, buffers in read])
        self.model = torch.cat([first, rest.to(first)])
        self.step += 1
        self.sent = {key: sent for key, sent in self.sent.items() if key[0] >= step}

    def _mixed(self, order: GossipOrder, own: Tensor, others: list[Tensor]) -> Tensor:
        """A plain step: the weighted sum of its own numbers and its neighbours'."""
        from fedrt.learning.gossip_kernel import gossip_step

        held = torch.stack([own, *others]).numpy()
        after = np.empty((1, held.shape[1]), dtype=held.dtype)
        count = len(others)
        links = Links(
            np.array([order.own]), np.array([0, count]), np.arange(1, count + 1), _array(order)
        )
        gossip_step(held, *links, after)
        return torch.from_numpy(after[0])

    def _moved(self, order: GossipOrder, apart: list[Tensor]) -> Tensor:
        """A coded step: both copies of every link go on, and the model moves as they say."""
        from fedrt.learning.gossip_kernel import coded_step

        own, theirs = self._rows(order)
        form, size, held = make_format(order.codec), self.parts.size, self.copies.held.clone()
        cut = message_bytes(order.codec, size)
        for row, j in zip(own, order.neighbours, strict=True):
            held[row] += form.decode(self.sent[self.step, j][:cut], size)
        for row, found in zip(theirs, apart, strict=True):
            held[row] += found
        count = len(own)
        model, copies = self.model[None, :size].numpy().copy(), held[own + theirs].numpy()
        reverse, first = np.arange(count, 2 * count), np.array([0, count])
        coded_step(model, copies, reverse, first, np.array(order.coded_weights))
        self.copies = KnownModels(self.copies.pairs, held)
        return torch.from_numpy(model[0])

    def end(self) -> Tensor | None:
        """The model after all steps; None if it has been handed out."""
        order = self._present()
        if self.step < order.steps:
            raise InputError(f"edge {self.edge}: is at gossip step {self.step} of {order.steps}")
        ended, self.ended = self.ended, True
        return None if ended else self.model

    def abandon(self) -> Tensor | None:
        """The model after the steps so far; forgets what these neighbours know of each other."""
        order = self._present()
        if self.ended:
            return None
        self._forget(order.neighbours)
        self.sent, self.ended = {}, True
        return self.model

    def _forget(self, neighbours: tuple[int, ...]) -> None:
        """Forget what some neighbours know of this server's model, and it of theirs."""
        kept = ~np.isin(self.copies.pairs, neighbours).any(axis=1)
        held = self.copies.held[torch.from_numpy(kept)]
        self.copies = KnownModels(self.copies.pairs[kept], held)

    def _present(self) -> GossipOrder:
        if self.order is None:
            raise InputError(f"edge {self.edge}: no gossip has begun")
        return self.order

    def state(self) -> dict[str, NDArray[Any]]:
        """What must survive a restart."""
        found: dict[str, NDArray[Any]] = {}
        if len(self.copies.pairs):
            found["pairs"], found["copies"] = self.copies.pairs, self.copies.held.numpy()
        if self.order is not None:
            found["gossip_order"] = _bytes(json.dumps(asdict(self.order)).encode())
            found["gossip_step"] = np.array([self.step, self.ended])
            if not self.ended:
                found["gossip_model"] = self.model.numpy()
            # Without a codec all neighbours get the same message: it is kept once.
            place: dict[bytes, int] = {}
            for message in self.sent.values():
                place.setdefault(message, len(place))
            rows = [(*key, place[message]) for key, message in sorted(self.sent.items())]
            found["gossip_sent"] = np.array(rows, dtype=np.int64).reshape(-1, 3)
            found |= {f"gossip_sent_{n}": _bytes(message) for message, n in place.items()}
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state."""
        self.copies = KnownModels.none(self._first())
        self.order, self.step, self.sent, self.ended = None, 0, {}, False
        if "pairs" in state:
            pairs, held = np.array(state["pairs"]), np.array(state["copies"], dtype=np.float32)
            if held.shape != (len(pairs), self.parts.size) or pairs.shape[1:] != (2,):
                raise InputError(f"the saved state: copies are {held.shape}, of {pairs.shape}")
            self.copies = KnownModels(pairs.astype(np.int64), torch.from_numpy(held))
        if "gossip_order" in state:
            table = json.loads(state["gossip_order"].tobytes())
            lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
            self.order = GossipOrder(**(table | lists))
            self.step, self.ended = int(state["gossip_step"][0]), bool(state["gossip_step"][1])
            if not self.ended:
                model = torch.from_numpy(np.array(state["gossip_model"]))
                self.model = model.to(self.parts.first_model)
            for step, j, n in state["gossip_sent"].tolist():
                self.sent[step, j] = state[f"gossip_sent_{n}"].tobytes()


def _array(order: GossipOrder) -> NDArray[np.float64]:
    return np.array(order.weights, dtype=np.float64)


def _bytes(raw: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(raw, dtype=np.uint8)
