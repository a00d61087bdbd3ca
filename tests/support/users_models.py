"""Models with layers of all kinds that stand for a user's own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as fn

from support.learning_cases import SHAPES, Case, engine_case

SIDE = (2, 4, 4)


class User(nn.Module):
    """A convolution, what a test puts between, and a linear layer."""

    def __init__(self, shape, classes) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3, padding=1)
        self.add_layers()
        with torch.no_grad():
            size = self.between(self.conv(torch.zeros(2, *shape))).flatten(1).shape[1]
        self.head = nn.Linear(size, classes)

    def add_layers(self) -> None: ...

    def between(self, x):
        return x

    def forward(self, x):
        return self.head(torch.flatten(self.between(self.conv(x)), 1))


class WithLayerNorm(User):
    def add_layers(self):
        self.norm = nn.LayerNorm([4, 4, 4])

    def between(self, x):
        return self.norm(x)


class WithConv1d(User):
    def add_layers(self):
        self.line = nn.Conv1d(4, 3, 3)

    def between(self, x):
        return self.line(x.flatten(2))


class WithParameters(User):
    """Parameters of many shapes, used by themselves."""

    def add_layers(self):
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.each = nn.Parameter(torch.linspace(0.5, 1, 4).reshape(4, 1, 1))
        self.wide = nn.Parameter(torch.linspace(0.5, 1, 4).reshape(1, 4, 1, 1))
        self.last = nn.Parameter(torch.linspace(-1, 1, 64))
        self.matrix = nn.Parameter(torch.linspace(-1, 1, 64 * 6).reshape(64, 6))

    def between(self, x):
        x = 2 * ((x + self.each) * self.scale + self.wide) - self.each
        return torch.relu(torch.flatten(x, 1) + self.last) @ self.matrix


class WithViews(User):
    def between(self, x):
        y = x.view(x.size(0), -1)
        z = x.view(-1, 64)
        return fn.relu(y) + z.tanh().view(x.shape[0], 64)


class WithCat(User):
    def between(self, x):
        one, two = x.chunk(2, 1)
        largest, _ = x.max(dim=1, keepdim=True)
        return torch.cat([one * two, x, largest * x], dim=1)


class WithGates(User):
    """Channels weighed by space and space weighed by channels, in place."""

    def between(self, x):
        x = x * torch.sigmoid(x.mean((2, 3), True))
        x = x * x.mean(1, keepdim=True)
        x += 1
        return x.mul(2).add_(x)


class WithGroupNorm(User):
    def add_layers(self):
        self.norm = nn.GroupNorm(2, 4)
        self.act = nn.ReLU(inplace=True)

    def between(self, x):
        return self.act(self.norm(x))


class WithBatchNorm1d(User):
    def add_layers(self):
        self.hidden = nn.Linear(64, 6)
        self.norm = nn.BatchNorm1d(6)

    def between(self, x):
        return fn.gelu(self.norm(self.hidden(x.flatten(1))))


class WithAveragedNorm(User):
    """Batch norm that averages over all batches has no stacked form, and buffers."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4, momentum=None)
        self.pool = nn.AvgPool2d(2)

    def between(self, x):
        return self.pool(self.norm(x))


class WithOddConvolutions(User):
    def add_layers(self):
        self.odd = nn.Conv2d(4, 6, 3, padding="same", dilation=2, groups=2, bias=False)
        self.round = nn.Conv2d(6, 3, 3, padding=1, padding_mode="circular")

    def between(self, x):
        return self.round(self.odd(x))


class Tied(User):
    """One layer twice, two layers with one weight, and a parameter that nobody uses."""

    def add_layers(self):
        self.one = nn.Conv2d(4, 4, 1)
        self.two = nn.Conv2d(4, 4, 1, bias=False)
        self.two.weight = self.one.weight
        self.line = nn.Conv1d(4, 4, 1)
        self.other = nn.Conv1d(4, 4, 1)
        self.other.weight = self.line.weight
        self.unused = nn.Parameter(torch.ones(3))

    def between(self, x):
        x = self.two(self.one(fn.relu(self.one(x))))
        return self.other(self.line(x.flatten(2)))


class BranchOnShape(User):
    """Cannot be traced, but is the same for all copies; batch norm within."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4)

    def between(self, x):
        return self.norm(x) if x.shape[1] > 2 else x


class BranchOnValues(User):
    """Each copy goes its own way."""

    def add_layers(self):
        self.norm = nn.BatchNorm2d(4)

    def between(self, x):
        return self.norm(x) if x.sum() > 0 else torch.tanh(self.norm(x) * 2)


class DropoutLayer(User):
    def add_layers(self):
        self.drop = nn.Dropout(0.5)

    def between(self, x):
        return self.drop(x)


def users(kind, engine="sequential", dtype="float64") -> Case:
    """A case with a module of this file."""
    name = f"{__name__}:{kind.__name__}"
    SHAPES[name] = SIDE
    try:
        return engine_case(engine, name, dtype)
    finally:
        del SHAPES[name]


class Least(nn.Module):
    def __init__(self, shape, classes) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(fn.relu(self.norm(self.conv(x))).flatten(1))


class HalfFrozen(nn.Module):
    """A frozen convolution with a trained one and a trained layer after it."""

    def __init__(self, shape, classes):
        super().__init__()
        self.body = nn.Conv2d(shape[0], 4, 3, padding=1).requires_grad_(False)
        self.more = nn.Conv2d(4, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.mid = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = torch.tanh(self.norm(self.more(torch.tanh(self.body(x))))).mean((2, 3))
        return self.head(torch.tanh(self.mid(x)))
