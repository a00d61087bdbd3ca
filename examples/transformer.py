"""A transformer encoder that reads an image row by row.

cd examples && fedrt run transformer.toml --allow-code
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RowReader(nn.Module):
    """Each row of a grey image is a token; the mean over rows decides."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 32) -> None:
        super().__init__()
        channels, height, columns = shape
        self.embed = nn.Linear(channels * columns, width)
        self.place = nn.Parameter(0.02 * torch.randn(height, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        rows = images.transpose(1, 2).flatten(2)
        return self.head(self.encoder(self.embed(rows) + self.place).mean(1))
