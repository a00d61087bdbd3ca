"""Cycles per sample from the seconds of local steps at several shares of the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class StepFit:
    """What a local step takes at a share x of full speed.

    Plans rest on seconds = full_s / x. With shares enough, seconds = fixed_s + scaled_s / x is
    fitted too: it shows what part of a step no frequency changes.
    """

    full_s: float
    """Seconds of a step at full speed, where the relative errors at all shares are least."""
    worst_error: float
    """The greatest relative error of a single measurement, by `full_s`."""
    typical_error: float
    """The greatest relative error of a share's median, by `full_s`."""
    spread: float
    """How far the measurements at one share lie apart, at most, over their median."""
    fixed_s: float | None = None
    scaled_s: float | None = None
    r_squared: float | None = None
    """The part of the variance of the seconds that fixed_s and scaled_s explain."""

    def cycles_per_sample(self, cpu_max_hz: float, batch_size: int) -> float:
        """What training on a sample takes, where full speed is `cpu_max_hz`."""
        return self.full_s * cpu_max_hz / batch_size


def fit_steps(seconds: Mapping[float, Sequence[float]]) -> StepFit:
    """The fit of the seconds of a local step, measured once or more at each share.

    Of every share the least counts: whatever else a machine does makes steps longer, never shorter.
    The sum of (full_s / (x s) - 1)^2 over the least s at shares x is least where full_s is
    sum(u) / sum(u^2), u = 1 / (x s). The straight line is the weighted least squares' with weights
    1 / s^2: of relative errors as well.
    """
    x = np.array(list(seconds))
    s = np.array([min(each) for each in seconds.values()])
    u = 1.0 / (x * s)
    full_s = float(u.sum() / (u**2).sum())
    spread = max((max(each) - min(each)) / float(np.median(each)) for each in seconds.values())
    errors = np.array(
        [abs(full_s / (share * each) - 1.0) for share in seconds for each in seconds[share]]
    )
    medians = np.array([np.median(each) for each in seconds.values()])
    typical = np.abs(full_s / (x * medians) - 1.0)
    line = _line(x, s) if len(seconds) > 1 else (None, None, None)
    return StepFit(full_s, float(errors.max()), float(typical.max()), float(spread), *line)


def _line(x: FloatArray, s: FloatArray) -> tuple[float, float, float]:
    """Intercept and slope of s over 1 / x, and the part of the variance that they explain."""
    rows = np.stack([1.0 / s, 1.0 / (x * s)], axis=1)
    (fixed_s, scaled_s), *_ = np.linalg.lstsq(rows, np.ones(len(s)), rcond=None)
    left = s - fixed_s - scaled_s / x
    whole = float(((s - s.mean()) ** 2).sum())
    return float(fixed_s), float(scaled_s), 1.0 - float((left**2).sum()) / whole if whole else 1.0
