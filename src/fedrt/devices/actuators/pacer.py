"""`pacer`: a token bucket in the sender, for uploads without root. The device has to be willing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from fedrt.devices.actuators.base import BandwidthActuator, UplinkShare
from fedrt.devices.wire.chunks import CHUNK

PIECE_S = 0.05
"""A piece takes about this long, so that a slow upload is even and no receiver gives up on it."""
LEAST_PIECE = 1024
BURST_S = 0.1
"""What a sender that was held up may make up for, in seconds of its rate."""


class Pacer(BandwidthActuator):
    """Waits before every piece until its bits fit into the rate.

    The last piece leaves when all bits have had their time, so that an upload takes bits / rate
    from its head to its end. Headers of TLS, TCP and IP come on top.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._rate_bps = 0.0
        self._ready_s = 0.0
        """When all that was let through so far has had its time."""

    def apply(self, shares: Sequence[UplinkShare]) -> None:
        (share,) = shares
        self._rate_bps, self._ready_s = share.rate_bps, self._clock()

    @property
    def piece_bytes(self) -> int:
        if self._rate_bps <= 0:
            return CHUNK
        return int(min(max(self._rate_bps * PIECE_S / 8, LEAST_PIECE), CHUNK))

    async def wait(self, sent_bytes: int) -> None:
        if self._rate_bps <= 0:
            return
        now = self._clock()
        self._ready_s = max(self._ready_s, now - BURST_S) + 8 * sent_bytes / self._rate_bps
        if self._ready_s > now:
            await self._sleep(self._ready_s - now)

    def undo(self) -> None:
        self._rate_bps = 0.0
