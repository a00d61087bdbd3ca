"""A transform of updates of your own: a clip whose norm follows each device's updates.
cd examples && fedrt run --set "learning.update=['own_transform:RunningClip','int4']"
"""

import torch


class RunningClip:
    """Shortens an update to `factor` times the running mean of the device's update norms."""

    def __init__(self, factor=1.5, decay=0.9):
        self.factor, self.decay = factor, decay

    def init(self, size):  # what each device remembers: the mean, 0 before its first update
        return torch.zeros(1)

    def apply(self, update, state, key):  # key: seed, t, r and device, for random numbers
        norm = update.norm()[None].clamp(min=1e-30)
        mean = torch.where(state > 0, self.decay * state + (1 - self.decay) * norm, norm)
        return update * (self.factor * mean / norm).clamp(max=1.0), mean
