"""All that a device agent enforces of its orders."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fedrt.devices.actuators.base import BandwidthActuator, CpuActuator, UplinkShare
from fedrt.devices.actuators.choices import CLEANERS, open_cpu
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.meters import Meter, find_meter
from fedrt.devices.actuators.pacer import Pacer
from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.wire.messages_pb2 import Order, Report

log = logging.getLogger(__name__)

CLOSE = 1.05
"""A share that is read back may be greater by this factor: kernels round."""


@dataclass(frozen=True)
class DeviceActuators:
    """Bandwidth and CPU of one device."""

    bandwidth: BandwidthActuator
    cpu: CpuActuator
    number: int
    cpu_max_hz: float
    cpu_share: float = 1.0
    """The share of a core that stands for `cpu_max_hz`."""
    meter: Meter | None = None

    @staticmethod
    def open(settings: DeviceSettings, cpu_max_hz: float) -> DeviceActuators:
        """Those that the settings name; says in one line what will not be enforced."""
        bandwidth = Pacer() if settings.bandwidth == "pacer" else BandwidthActuator()
        if settings.bandwidth == "none":
            log.info("bandwidth: planned shares are not enforced on this device")
        leftovers = Leftovers(settings.state)
        leftovers.undo(CLEANERS)
        cpu = open_cpu(settings, leftovers)
        meter = None if settings.meter == "none" else find_meter(kind=settings.meter)
        log.info("energy: %s", "modelled" if meter is None else f"measured by {meter.words}")
        share = settings.cpu_share
        return DeviceActuators(bandwidth, cpu, settings.number, cpu_max_hz, share, meter)

    @contextmanager
    def training(self, order: Order, report: Report) -> Iterator[None]:
        """Hold the CPU to the share of an order while the block runs.

        The report gets the seconds that this took, and afterwards the joules of the block, if
        there is a meter.
        """
        of_full = min(order.cpu_hz / self.cpu_max_hz, 1.0) if order.cpu_hz > 0 else 1.0
        report.enforce_s = self._hold(of_full * self.cpu_share, order.local_steps)
        if self.meter is not None:
            self.meter.start()
        try:
            yield
        finally:
            joules = None if self.meter is None else self.meter.stop()
            if joules is not None:
                report.joules, report.metered = joules, True
            try:
                self.cpu.undo()
            except OSError as error:
                log.warning("cpu: the share of this round stays: %s", error)

    def _hold(self, share: float, steps: int) -> float:
        """Hold the CPU to a share, and say if it is another one; the seconds until it is held."""
        began = time.monotonic()
        try:
            with urgent():
                found = self.cpu.apply(share, steps)
                held_s = time.monotonic() - began  # others may go first again after the block
        except OSError as error:
            log.warning("cpu: the planned frequency is not enforced: %s", error)
            return time.monotonic() - began
        if found > CLOSE * share and type(self.cpu) is not CpuActuator:
            log.warning("cpu: a share of %.3f was asked for, and is %.3f", share, found)
        return held_s

    def begin_upload(self, order: Order) -> None:
        """Set the rate of the upload that follows."""
        self.bandwidth.apply([UplinkShare(self.number, order.rate_bps)])

    def close(self) -> None:
        """Leave the machine as it was."""
        self.bandwidth.undo()
        self.cpu.close()


@contextmanager
def urgent() -> Iterator[None]:
    """Let this thread have a core at once in the block, where the machine allows it.

    Others may train on the same machine, and each file that is written is a chance for them to go
    first.
    """
    try:
        before, usual = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (OSError, AttributeError):  # not allowed, or no Linux
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, usual)
