"""The actuators by the names that settings have."""

from __future__ import annotations

import logging

from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.common.settings import DeviceSettings

log = logging.getLogger(__name__)


def open_cpu(settings: DeviceSettings) -> CpuActuator:
    """The actuator of a device's CPU; says in one line what will not be enforced."""
    if settings.cpu == "duty":
        return DutyCycle()
    log.info("cpu: planned frequencies are not enforced on this device")
    return CpuActuator()
