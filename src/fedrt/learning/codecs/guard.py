"""The guard of codecs: a device whose messages leave too much out gets a codec with more bits.

What a device has yet to send, e, is late: if it outgrows the updates u, training follows old
updates. With a codec of distortion d, |e| stays below sqrt(d) / (1 - sqrt(d)) times the greatest
|u| (`messages.left_limit`). A device whose mean of |e| / |u| over its last messages is beyond that
has a codec whose distortion is not what it should be, and takes the next one in
`messages.LADDER` for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import LADDER, left_limit, message_bytes
from fedrt.rounds import NOT_STEPPED

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEWEST = 0.2
"""The weight of a device's newest message in its mean."""
STEPS = {name: number for number, name in enumerate(LADDER)}
LIMITS = np.array([left_limit(name) for name in LADDER])


class Guard:
    """The least codec that each device of a fleet may use, and the mean that decides on it."""

    def __init__(self, devices: int) -> None:
        self.least: IntArray = np.zeros(devices, dtype=np.int64)
        """For each device, the place in `LADDER` of the least codec that it may use."""
        self.mean: FloatArray = np.full(devices, np.nan)
        """The mean of |e| / |u| of the codec that it uses; NaN before its first message."""

    def allowed(self, devices: IntArray, names: Sequence[str], numbers: int) -> list[str]:
        """The codecs that devices use in place of these for updates of so many numbers.

        In place of a user's codec the least one is used if it has more bytes, as plans count on.
        """

        def coarser(name: str, least: int) -> bool:
            if ":" in name and least:
                return message_bytes(name, numbers) < message_bytes(LADDER[least], numbers)
            return STEPS.get(name, len(LADDER)) < least

        return [
            LADDER[least] if coarser(name, least) else name
            for name, least in zip(names, self.least[devices].tolist(), strict=True)
        ]

    def after(
        self,
        devices: IntArray,
        names: Sequence[str],
        update_norm: FloatArray,
        left_norm: FloatArray,
    ) -> IntArray:
        """Take note of the devices' messages; where each is stepped up to, or `NOT_STEPPED`."""
        stepped = np.full(len(devices), NOT_STEPPED)
        step = np.array([STEPS.get(name, len(LADDER)) for name in names], dtype=np.int64)
        known = np.isfinite(update_norm) & np.isfinite(left_norm) & (update_norm > 0)
        known &= step < len(LADDER)
        who = devices[known]
        found = left_norm[known] / update_norm[known]
        before = np.where(np.isnan(self.mean[who]), found, self.mean[who])
        self.mean[who] = before + NEWEST * (found - before)
        beyond = self.mean[who] > LIMITS[step[known]]
        beyond &= step[known] < len(LADDER) - 1
        up = who[beyond]
        self.least[up] = step[known][beyond] + 1
        self.mean[up] = np.nan
        stepped[np.flatnonzero(known)[beyond]] = self.least[up]
        return stepped

    def state(self) -> NDArray[np.float64]:
        """Everything that the guard remembers, for a checkpoint: 2 x devices."""
        return np.stack([self.least.astype(np.float64), self.mean])

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what a checkpoint has; one without a guard leaves it as it is."""
        if "guard" in state:
            least, self.mean = np.array(state["guard"], dtype=np.float64)
            self.least = least.astype(np.int64).clip(0, len(LADDER) - 1)
