"""What has been spent: the energy books that policies plan against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

Horizon = Literal["paper", "exact"]

# Spending beyond an allowance by no more than this fraction is rounding and counts as within it.
ROUNDING = 1e-9


class Books(Protocol):
    """What a policy may know of the past: the energy each device may spend now, and the clock."""

    @property
    def elapsed_s(self) -> FloatArray:
        """Per edge: seconds since this global round began."""
        ...

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        """Per device: joules for the coming edge round; inf = no limit, may be <= 0."""
        ...


@dataclass(frozen=True)
class GivenAllowance:
    """The books of a single decision: allowances and elapsed times as somebody else kept them."""

    allowance: FloatArray
    elapsed_s: FloatArray

    def allowance_j(self, horizon: Horizon) -> FloatArray:
        return self.allowance


def overspend_j(energy_j: FloatArray, allowance_j: FloatArray) -> FloatArray:
    """Joules beyond what was allowed; 0 where within it (to rounding)."""
    over = energy_j - allowance_j
    return np.where(over > ROUNDING * np.maximum(energy_j, np.abs(allowance_j)), over, 0.0)
