"""Fine-tuning: devices train the head of a network whose body was trained before, and is frozen.

    cd examples && python fine_tuning.py && fedrt run fine_tuning.toml --allow-code

The first command trains a network on the digits 0 to 4 and saves it as body.pt; the second has the
devices learn 5 to 9 with it. Only the head is uploaded and charged: 645 of 5,445 numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

BODY = Path(__file__).parent / "body.pt"
CLASSES, FEATURES = 5, 32 * 2 * 2


def body() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
    )


class FineTuned(nn.Module):
    """The saved body, frozen, and a head that trains."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = body()
        self.body.load_state_dict(torch.load(BODY, weights_only=True))
        self.body.requires_grad_(False)
        self.head = nn.Linear(FEATURES, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def images(classes: range) -> tuple[np.ndarray, np.ndarray]:
    """The digits of some classes, numbered from 0."""
    found = load_digits()
    mine = np.isin(found.target, classes)
    return (found.images[mine] / 16.0).astype(np.float32)[..., None], found.target[mine] - classes[
        0
    ]


def new_digits() -> dict[str, np.ndarray]:
    """What the devices learn: the digits 5 to 9, none of which the body has seen."""
    x, y = images(range(CLASSES, 10))
    test = np.arange(len(y)) % 5 == 4
    return {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}


def pretrain(steps: int = 150) -> None:
    """Train body and head on the digits 0 to 4, and save the body."""
    torch.manual_seed(0)
    x, y = images(range(CLASSES))
    inputs = torch.from_numpy((x - x.mean()) / x.std()).permute(0, 3, 1, 2)
    labels = torch.from_numpy(y)
    module = nn.Sequential(body(), nn.Linear(FEATURES, CLASSES))
    optimiser = torch.optim.Adam(module.parameters(), 0.003)
    for _ in range(steps):
        chosen = torch.randint(len(labels), (64,))
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs[chosen]), labels[chosen]).backward()
        optimiser.step()
    torch.save(module[0].state_dict(), BODY)


if __name__ == "__main__":
    pretrain()
