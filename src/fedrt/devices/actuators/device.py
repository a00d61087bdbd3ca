"""All that a device agent enforces of its orders."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fedrt.devices.actuators.base import BandwidthActuator, CpuActuator, UplinkShare
from fedrt.devices.actuators.choices import open_cpu
from fedrt.devices.actuators.pacer import Pacer
from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.wire.messages_pb2 import Order

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeviceActuators:
    """Bandwidth and CPU of one device."""

    bandwidth: BandwidthActuator
    cpu: CpuActuator
    number: int
    cpu_max_hz: float

    @staticmethod
    def open(settings: DeviceSettings, cpu_max_hz: float) -> DeviceActuators:
        """Those that the settings name; says in one line what will not be enforced."""
        bandwidth = Pacer() if settings.bandwidth == "pacer" else BandwidthActuator()
        if settings.bandwidth == "none":
            log.info("bandwidth: planned shares are not enforced on this device")
        cpu = open_cpu(settings)
        return DeviceActuators(bandwidth, cpu, settings.number, cpu_max_hz)

    @contextmanager
    def training(self, order: Order) -> Iterator[None]:
        """Hold the CPU to the share of an order while the block runs."""
        share = order.cpu_hz / self.cpu_max_hz if order.cpu_hz > 0 else 1.0
        self.cpu.apply(share)
        try:
            yield
        finally:
            self.cpu.undo()

    def begin_upload(self, order: Order) -> None:
        """Set the rate of the upload that follows."""
        self.bandwidth.apply([UplinkShare(self.number, order.rate_bps)])

    def close(self) -> None:
        """Leave the machine as it was."""
        self.bandwidth.undo()
        self.cpu.close()
