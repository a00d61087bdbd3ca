"""Clipping: no device moves its edge server's model farther than a norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedrt.scenario.tables.fields import setting
from fedrt.validation import Real

if TYPE_CHECKING:
    from torch import Tensor

    from fedrt.learning.transforms.base import UpdateKey


@dataclass(frozen=True)
class Clip:
    """Shortens an update to a norm, L2 over all parameters.

    u <- u min(1, max_norm / |u|). What it cuts off is not sent later either.
    """

    kind: ClassVar[str] = "clip"
    max_norm: float = setting(Real(above=0, most=1e9), 1.0)
    """The greatest norm that an update has afterwards."""

    def apply(
        self, update: Tensor, state: Tensor | None, key: UpdateKey
    ) -> tuple[Tensor, Tensor | None]:
        """The update, shortened if it is too long."""
        norm = _norm(update)
        return update if norm <= self.max_norm else update * (self.max_norm / norm), state


def _norm(update: Tensor) -> float:
    """The norm in float64. On a processor it does not depend on how many threads there are."""
    if update.device.type != "cpu":
        return float(update.double().norm())
    return float(np.sqrt(np.square(update.numpy().astype(np.float64)).sum()))
