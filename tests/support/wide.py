"""Models of a given size that train in no time: wide layers on digits, most of them unused."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Wide425(nn.Module):
    """A linear layer, and 1.7 MB in all."""

    ballast_numbers = 424_360

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], num_classes)
        self.ballast = nn.Parameter(torch.zeros(self.ballast_numbers))

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.flatten(1)) + 0 * self.ballast[:1]


class Wide25000(Wide425):
    """The same with 100 MB."""

    ballast_numbers = 24_999_360
