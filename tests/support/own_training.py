"""Optimisers, an aggregator and a task that stand for a user's own, working and broken."""

from __future__ import annotations

import numpy as np
from torch.nn import functional as fn


class Regression:
    """A task of a user's own: scores are to be the label's row of a unit matrix."""

    def output_shape(self, num_classes):
        return (num_classes,)

    def losses(self, outputs, labels):
        return (outputs - fn.one_hot(labels, outputs.shape[1])).square().sum(1)

    def metric(self, outputs, labels):
        return -self.losses(outputs, labels)


class Broken:
    """An optimiser that fails in one of several ways."""

    def __init__(self, learning_rate, how=""):
        self.how = how

    def init(self, parameters):
        return []

    def update(self, parameters, gradients, state, step):
        if self.how == "raises":
            raise ValueError("no\nupdate")
        if self.how == "shape":
            return [w[..., :1] for w in parameters], state
        return parameters[0]


class Nothing:
    def __init__(self, *given):
        pass


class BrokenMean(Broken):
    """An aggregator that fails in one of several ways."""

    def __init__(self, how):
        self.how = how

    def weigh(self, samples):
        return {"weigh": samples[1:], "negative": -samples, "none": 0 * samples}.get(
            self.how, samples
        )

    def aggregate(self, model, rows, share):
        if self.how == "raises":
            raise ValueError("no\nupdate")
        return {"shape": model[1:], "nan": model * np.nan, "type": 3}[self.how]


class MeanInRows:
    """The slow twin of the weighted mean: it does not say that it is linear."""

    def aggregate(self, model, rows, share):
        return sum(part * row.double() for part, row in zip(share, rows, strict=True))


class Falling:
    """A schedule of a user's own."""

    def __init__(self, by):
        self.by = by

    def factor(self, t, rounds):
        return self.by if isinstance(self.by, str) else self.by**t


class Slow:
    """A server optimiser of a user's own that counts its steps, and takes ever smaller ones."""

    def __init__(self, rate=1.0, how=""):
        self.rate, self.how = rate, how

    def init(self, models):
        return [models.new_zeros(1 if self.how == "init" else len(models), 1)]

    def update(self, models, change, state):
        if self.how == "raises":
            raise ValueError("no\nupdate")
        if self.how == "type":
            return models
        count = state[0] + 1
        after = models + self.rate * change / count
        after = {"shape": after[:, :0], "nan": after * np.nan}.get(self.how, after)
        return after, [count]
