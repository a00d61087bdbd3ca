"""An optimiser of your own: Adam.

cd examples && fedrt run --set learning.optimiser=own_optimiser:Adam
"""

import torch


class Adam:
    """Steps by a running mean of the gradients over the root of one of their squares."""

    def __init__(self, learning_rate, mean_decay=0.9, square_decay=0.999):
        self.rate, self.mean_decay, self.square_decay = learning_rate, mean_decay, square_decay

    def init(self, parameters):  # what is remembered between steps, as an edge round starts
        return [torch.zeros_like(w) for w in [*parameters, *parameters]]

    def update(self, parameters, gradients, state, step):  # lists of tensors; step from 1
        means, squares = state[: len(parameters)], state[len(parameters) :]
        a, b = self.mean_decay, self.square_decay
        means = [a * m + (1 - a) * g for m, g in zip(means, gradients, strict=True)]
        squares = [b * s + (1 - b) * g**2 for s, g in zip(squares, gradients, strict=True)]
        after = []
        for w, m, s in zip(parameters, means, squares, strict=True):
            size = (s / (1 - b**step)).sqrt() + 1e-8
            after.append(w - self.rate * m / (1 - a**step) / size)
        return after, [*means, *squares]
