"""`duty`: a duty cycle in the trainer, which needs no root and changes nothing that is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from fedrt.devices.actuators.base import CpuActuator


class DutyCycle(CpuActuator):
    """Sleeps after every local step until the CPU time used is the share of the time gone by.

    CPU time is that of the training thread: on a busy machine, waiting for the CPU is no work.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        super().__init__()
        self._ended = Event()
        self._clock, self._cpu_clock, self._sleep = clock, cpu_clock, sleep or self._ended.wait
        self._share, self._began, self._cpu_began = 1.0, 0.0, 0.0

    def _apply(self, share: float) -> float:
        self._share, self._began, self._cpu_began = share, self._clock(), self._cpu_clock()
        return share

    def after_step(self) -> None:
        if not 0.0 < self._share < 1.0 or self._closed:
            return
        used_s = self._cpu_clock() - self._cpu_began
        left_s = used_s / self._share - (self._clock() - self._began)
        if left_s > 0:
            self._sleep(left_s)

    def _undo(self) -> None:
        self._share = 1.0
        if self._closed:
            self._ended.set()
