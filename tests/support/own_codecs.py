"""Update codecs that stand for a user's own, working and broken."""

from __future__ import annotations

import torch


class Half:
    """Half of every number is sent, as 2 bytes of float16; nothing is remembered."""

    def message_bytes(self, size):
        return 2 * size

    def encode(self, update, state):
        return (update / 2).half().numpy().tobytes(), state

    def decode(self, message):
        return torch.frombuffer(bytearray(message), dtype=torch.float16)


class StackedHalf(Half):
    """The same for many devices at once; a device remembers how often it has sent."""

    def init(self, size):
        return torch.full((1,), 5.0)

    def encode(self, update, state):
        return super().encode(update, None)[0], state + 1

    def encode_stacked(self, updates, states):
        assert updates.shape[:1] == states.shape[:1]
        lengths = torch.full((len(updates),), 2 * updates.shape[1])
        return (updates / 2).half(), lengths, states + 1


class Stated(Half):
    """A byte for every number of the greatest, after the greatest; policies may choose it."""

    selectable = True
    distortion = 2e-3

    def message_bytes(self, size):
        return 4 + size

    def encode(self, update, state):
        most = update.abs().max().float().clamp(min=1e-30)
        return most.numpy().tobytes() + (update / most * 100).to(torch.int8).numpy().tobytes(), None

    def decode(self, message):
        most = torch.frombuffer(bytearray(message[:4]), dtype=torch.float32)
        return torch.frombuffer(bytearray(message[4:]), dtype=torch.int8).float() / 100 * most


class Unstated(Stated):
    """The same without one of the facts, or with a state of its own."""

    selectable = False


class Undistorted(Stated):
    """One whose distortion is no number."""

    distortion = None


class Remembering(Stated):
    """One with a state of its own."""

    def init(self, size):
        return torch.zeros(size)


class Broken(Half):
    """A codec that fails in one of several ways."""

    def __init__(self, how):
        self.how = how
        if how == "state" or how.startswith("stacked"):
            self.init = lambda size: torch.zeros(3)
        if how == "init":
            self.init = lambda size: 3
        if how.startswith("stacked"):
            self.encode_stacked = self.all_at_once

    def message_bytes(self, size):
        return {"length": size, "no length": "long"}.get(self.how, 2 * size)

    def encode(self, update, state):
        match self.how:
            case "raises":
                raise ValueError("no\nmessage")
            case "bytes":
                return "text", state
            case "state":
                return b"", torch.zeros(2)
            case "from nothing":
                return b"", torch.zeros(2)
        return super().encode(update, state)

    def decode(self, message):
        if self.how == "cut":
            message = message[:-1]
        found = super().decode(message)
        return found[1:] if self.how == "shape" else found

    def all_at_once(self, updates, states):
        lengths = [self.message_bytes(updates.shape[1])] * len(updates)
        match self.how:
            case "stacked":
                return updates
            case "stacked shape":
                return updates[:, 1:], lengths, states
            case "stacked state":
                return updates, lengths, None
        return updates, lengths[1:], states
