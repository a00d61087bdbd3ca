"""Mini-batches and augmentation of every device, keyed by seed, round, step and device.

Every mini-batch is an independent uniform draw, with replacement, from the device's data, and a
function of (seed, t, r, step, device). So a device may hold fewer samples than a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedrt.seeding import stream

IntArray = NDArray[np.int64]

CROP_PADDING = 4


class Batches:
    """Draws the mini-batches of a run."""

    def __init__(self, parts: Sequence[IntArray], batch_size: int, seed: int) -> None:
        self.sizes = np.array([len(part) for part in parts])
        self.first = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        self.samples = np.concatenate(parts)
        self.batch_size, self.seed = batch_size, seed

    def draw(self, t: int, r: int, steps: int, devices: IntArray) -> IntArray:
        """The numbers of the drawn samples, of shape (steps, devices, batch size)."""
        shape = (int(devices.max(initial=0)) + 1, self.batch_size)
        drawn = np.empty((steps, len(devices), self.batch_size), dtype=np.int64)
        for step in range(steps):
            share = stream(self.seed, "batch", t, r, step).random(shape)[devices]
            place = (share * self.sizes[devices, None]).astype(np.int64)
            drawn[step] = self.samples[self.first[devices, None] + place]
        return drawn

    def draw_augmentation(self, t: int, r: int, steps: int, devices: IntArray) -> IntArray:
        """Drawn shifts down and right (0 to 8 after padding by 4) and flips, on a last axis."""
        shape = (int(devices.max(initial=0)) + 1, self.batch_size, 3)
        ends = np.array([2 * CROP_PADDING + 1, 2 * CROP_PADDING + 1, 2])
        drawn = np.empty((steps, len(devices), self.batch_size, 3), dtype=np.int64)
        for step in range(steps):
            share = stream(self.seed, "augment", t, r, step).random(shape)[devices]
            drawn[step] = (share * ends).astype(np.int64)
        return drawn

    def draw_seeds(self, t: int, r: int, devices: IntArray) -> IntArray:
        """For each device, the seed of random layers in its model, such as dropout."""
        count = int(devices.max(initial=0)) + 1
        return stream(self.seed, "forward", t, r).integers(2**63 - 1, size=count)[devices]
