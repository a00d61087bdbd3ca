"""`duty`: a duty cycle in the trainer, which needs no root and changes nothing that is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

from fedrt.devices.actuators.base import CpuActuator

RUN_S = 0.1
"""Work between two pauses: after each a processor is slower for a while, its caches cold."""


class DutyCycle(CpuActuator):
    """Sleeps now and then until the work done is the share of what a whole core would have done.

    It does so after the step with which `run_s` of work have been done since the last pause, and
    after the last step, so that the whole training takes its work over the share. Work is the CPU
    time of the training thread: on a busy machine, waiting for the CPU is no work. With
    `core_step_s` every local step is so many seconds of work, however long the processor took over
    it: where its speed changes, as in a virtual machine, shares of CPU time are no steady speed. It
    then pauses after every step: several devices on one machine hold each other up the least.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], object] | None = None,
        run_s: float = RUN_S,
        core_step_s: float = 0.0,
    ) -> None:
        super().__init__()
        self._ended, self._run_s, self.core_step_s = Event(), run_s, core_step_s
        self._clock, self._cpu_clock, self._sleep = clock, cpu_clock, sleep or self._ended.wait
        self._share, self._began, self._cpu_began = 0.0, 0.0, 0.0
        self._done, self._left, self._paused_s = 0, 0, 0.0

    @property
    def is_free_at_full_speed(self) -> bool:
        return not self.core_step_s

    def _apply(self, share: float, steps: int) -> float:
        is_free = share >= 1.0 and self.is_free_at_full_speed
        self._share = 0.0 if is_free else share
        self._began, self._cpu_began = self._clock(), self._cpu_clock()
        self._done, self._left, self._paused_s = 0, steps, 0.0
        return share

    def after_step(self) -> None:
        self._done, self._left = self._done + 1, self._left - 1
        if self._share <= 0.0 or self._closed:
            return
        worked_s = self._done * self.core_step_s or self._cpu_clock() - self._cpu_began
        is_soon = worked_s - self._paused_s < self._run_s and not self.core_step_s
        if self._left > 0 and is_soon:
            return
        self._paused_s = worked_s
        left_s = worked_s / self._share - (self._clock() - self._began)
        if left_s > 0:
            self._sleep(left_s)

    def _undo(self) -> None:
        self._share = 0.0
        if self._closed:
            self._ended.set()
