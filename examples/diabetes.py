"""Regression: how diabetes progresses within a year, from scikit-learn's bundled records.

    cd examples && fedrt run diabetes.toml --allow-code

442 patients, ten measurements of each; every device stands for a practice with its own patients.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes
from torch import Tensor, nn

DEVICES = 20


def data() -> dict[str, np.ndarray]:
    """Measurements and progression in hundreds, as regression learns better near 1."""
    found = load_diabetes(scaled=False)
    x, y = found.data, found.target / 100.0
    test = np.arange(len(y)) % 5 == 4
    # Practices differ in the age of their patients.
    owner = np.argsort(np.argsort(x[~test, 0], kind="stable")) * DEVICES // int((~test).sum())
    return {
        "x_train": x[~test],
        "y_train": y[~test],
        "x_test": x[test],
        "y_test": y[test],
        "owner_train": owner,
    }


class Progression(nn.Module):
    """A linear model with a small hidden layer beside it."""

    def __init__(self, shape: tuple[int, ...], numbers: int) -> None:
        super().__init__()
        self.line = nn.Linear(shape[0], numbers)
        self.hidden = nn.Linear(shape[0], 16)
        self.head = nn.Linear(16, numbers)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x) + self.head(self.hidden(x).tanh())
