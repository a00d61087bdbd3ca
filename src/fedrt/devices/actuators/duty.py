"""`duty`: a duty cycle in the trainer, which needs no root and changes nothing that is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from fedrt.devices.actuators.base import CpuActuator

RUN_S = 0.1
"""CPU time between two pauses: after each a processor is slower for a while, its caches cold."""


class DutyCycle(CpuActuator):
    """Sleeps now and then until the CPU time used is the share of the time gone by.

    It does so after the step with which `run_s` of CPU time have been used since the last pause,
    and after the last step, so that the whole training takes its CPU time over the share. CPU time
    is that of the training thread: on a busy machine, waiting for the CPU is no work.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], object] | None = None,
        run_s: float = RUN_S,
    ) -> None:
        super().__init__()
        self._ended, self._run_s = Event(), run_s
        self._clock, self._cpu_clock, self._sleep = clock, cpu_clock, sleep or self._ended.wait
        self._share, self._began, self._cpu_began = 1.0, 0.0, 0.0
        self._steps, self._paused_s = 0, 0.0

    def _apply(self, share: float, steps: int) -> float:
        self._share, self._began, self._cpu_began = share, self._clock(), self._cpu_clock()
        self._steps, self._paused_s = steps, 0.0
        return share

    def after_step(self) -> None:
        self._steps -= 1
        if not 0.0 < self._share < 1.0 or self._closed:
            return
        used_s = self._cpu_clock() - self._cpu_began
        if self._steps > 0 and used_s - self._paused_s < self._run_s:
            return
        self._paused_s = used_s
        left_s = used_s / self._share - (self._clock() - self._began)
        if left_s > 0:
            self._sleep(left_s)

    def _undo(self) -> None:
        self._share = 1.0
        if self._closed:
            self._ended.set()
