"""Transforms of updates that stand for a user's own, working and broken."""

from __future__ import annotations

import torch

from fedrt.seeding import stream


class Late:
    """Half of an update goes on, with half of the one before: a device remembers it."""

    def init(self, size):
        return torch.zeros(size)

    def apply(self, update, state, key):
        return update / 2 + state.to(update), update / 2


class Hidden:
    """Numbers of its own are added to an update, and taken away by the edge server."""

    def mask(self, update, key):
        drawn = stream(key.seed, "hidden", key.t, key.r, key.device).standard_normal(len(update))
        return torch.from_numpy(drawn).to(update)

    def apply(self, update, state, key):
        return update + self.mask(update, key), state

    def receive(self, update, key):
        return update - self.mask(update, key)


class Broken:
    """A transform that fails in one of several ways."""

    def __init__(self, how):
        self.how = how
        if how in ("init", "state"):
            self.init = lambda size: torch.zeros(2, 2) if how == "init" else torch.zeros(3)
        if how == "receive":
            self.receive = lambda update, key: update[:1]

    def apply(self, update, state, key):
        match self.how:
            case "raises":
                raise ValueError("no\nupdate")
            case "shape":
                return update[1:], state
            case "alone":
                return update
            case "state":
                return update, torch.zeros(4)
            case "from nothing":
                return update, torch.zeros(4)
        return update, state
