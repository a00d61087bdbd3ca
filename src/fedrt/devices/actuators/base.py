"""What enforces a plan: one interface for bandwidth, one for the CPU.

The classes here are the actuators `none`, which enforce nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from fedrt.devices.wire.chunks import CHUNK


@dataclass(frozen=True)
class UplinkShare:
    """The rate at which one device is to upload in a round."""

    device: int
    rate_bps: float
    """In bit/s; 0: as fast as it can."""
    address: str = ""
    """The device's address, where that is known."""


class BandwidthActuator:
    """Holds uploads to their rates; this one lets them be."""

    def apply(self, shares: Sequence[UplinkShare]) -> None:
        """Set the rates of a round, before its first byte; those of the last round go."""

    def is_quick(self, shares: Sequence[UplinkShare]) -> bool:
        """Whether `apply` would take no longer than a call of the kernel."""
        return True

    def holds(self, share: UplinkShare) -> bool:
        """Whether a device is held to this rate already."""
        return True

    def add(self, share: UplinkShare) -> None:
        """Set the rate of one device more, which came later or from another address."""

    @property
    def piece_bytes(self) -> int:
        """The length of the pieces that a sender is to send."""
        return CHUNK

    async def wait(self, sent_bytes: int) -> None:
        """Wait until a sender may send so many bytes more."""

    def undo(self) -> None:
        """Leave the machine as it was. May be called at any time, and more than once."""


class CpuActuator:
    """Holds training to a share of the CPU's full speed; this one lets it run."""

    def __init__(self) -> None:
        self._lock, self._closed = Lock(), False

    @property
    def is_free_at_full_speed(self) -> bool:
        """Whether training at a share of 1 is as fast as the machine lets it be."""
        return True

    def apply(self, share: float, steps: int = 0) -> float:
        """Set the share of full speed, before the first local step; return what was read back.

        `steps` is how many local steps there will be, 0 where that is not known. Does nothing
        once the actuator is closed.
        """
        with self._lock:
            return 1.0 if self._closed else self._apply(min(max(share, 0.0), 1.0), steps)

    def after_step(self) -> None:
        """Called after every local step."""

    def undo(self) -> None:
        """Let training run at full speed. May be called at any time, and more than once."""
        with self._lock:
            self._undo()

    def close(self) -> None:
        """Undo for good, and leave the machine as it was."""
        with self._lock:
            self._closed = True
            self._undo()

    def _apply(self, share: float, steps: int) -> float:
        return 1.0

    def _undo(self) -> None:
        return
