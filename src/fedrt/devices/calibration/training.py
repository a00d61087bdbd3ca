"""The seconds of real local steps on a device, at shares of its full speed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.device import DeviceActuators
from fedrt.devices.wire.messages_pb2 import Order, Report

if TYPE_CHECKING:
    from fedrt.learning.remote import EdgeModel, LocalTrainer

MOST_STEPS = 100_000
WARM_UP = 3

Train = Callable[[int, float], float]
"""Seconds of so many local steps at a share of full speed."""


def measure_steps(
    train: Train, shares: Sequence[float], seconds: float, repeats: int
) -> dict[float, list[float]]:
    """For every share, the seconds of a local step, `repeats` times.

    Steps are as many as take `seconds` or more. Shares take turns, so that a machine that gets
    warm or busy touches all of them.
    """
    train(WARM_UP, 1.0)
    step_s = max(train(WARM_UP, 1.0) / WARM_UP, 1e-9)
    found: dict[float, list[float]] = {share: [] for share in shares}
    for _ in range(repeats):
        for share in shares:
            steps = min(max(math.ceil(seconds * share / step_s), 1), MOST_STEPS)
            found[share].append(train(steps, share) / steps)
    return found


@dataclass
class TrainingRuns:
    """Trains the device's own samples, as ordered rounds would."""

    trainer: LocalTrainer
    edge: EdgeModel
    actuators: DeviceActuators
    message: bytes = b""
    """The last update, as it would be sent."""
    waited: list[float] = field(default_factory=list)
    """The part of each training on a whole core in which it waited for the CPU."""
    watts: dict[float, list[float]] = field(default_factory=dict)
    """For every share, the power of each training, where there is a meter."""

    def _runs_free(self, share: float) -> bool:
        """Whether training never waits by itself at a share of full speed."""
        cpu = self.actuators.cpu
        return type(cpu) is CpuActuator or (
            share * self.actuators.cpu_share >= 1.0 and cpu.is_free_at_full_speed
        )

    def train(self, steps: int, share: float) -> float:
        """Seconds of so many local steps at a share of full speed."""
        number, samples = self.trainer.number, self.trainer.samples
        (order,) = self.edge.orders(0, 0, [number], [steps], None, [samples])
        asked = Order(cpu_hz=share * self.actuators.cpu_max_hz, local_steps=steps)
        spent, model, cpu_began = Report(), self.edge.model(), time.thread_time()
        after_step, limits = self.actuators.cpu.after_step, self.actuators.training(asked, spent)
        result = self.trainer.train(order, model, after_step, limits)
        cpu_s = time.thread_time() - cpu_began
        if self._runs_free(share):
            self.waited.append(max(1.0 - cpu_s / max(result.train_s, 1e-9), 0.0))
        self.trainer.settle(accepted=False)
        self.message = bytes(result.message)
        if spent.metered and result.train_s > 0:
            self.watts.setdefault(share, []).append(spent.joules / result.train_s)
        return result.train_s
