"""The actuators by the names that settings have; what cannot be enforced is said here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fedrt.devices.actuators.base import BandwidthActuator, CpuActuator
from fedrt.devices.actuators.cgroup import CgroupQuota, clean_cgroup, find_home
from fedrt.devices.actuators.cpufreq import CpuFrequency, clean_cpufreq, policies
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.tc import TrafficControl, clean_tc
from fedrt.devices.common.settings import DeviceSettings, EdgeSettings
from fedrt.errors import FedrtError

log = logging.getLogger(__name__)

CGROUPS, OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CPUS = Path("/sys/devices/system/cpu")
CLEANERS = {"cgroup": clean_cgroup, "cpufreq": clean_cpufreq, "tc": clean_tc}
PROBE = 0.5
"""The share at which an actuator of the CPU is tried at the start."""


class MissingPartError(FedrtError):
    """The machine lacks what an actuator needs."""


def open_cpu(settings: DeviceSettings, leftovers: Leftovers) -> CpuActuator:
    """The actuator of a device's CPU; says in one line if nothing will be enforced."""
    if settings.cpu == "none":
        log.info("cpu: planned frequencies are not enforced on this device")
        return CpuActuator()
    try:
        return CPU[settings.cpu](settings, leftovers)
    except (OSError, ValueError, FedrtError) as error:
        why = f"{settings.cpu} cannot be used: {error}"
        log.warning("cpu: planned frequencies are not enforced on this device: %s", why)
        return CpuActuator()


def _tried(actuator: CpuActuator) -> CpuActuator:
    """An actuator that can set a share and undo it; else the kernel's error."""
    try:
        actuator.apply(PROBE)
        actuator.undo()
    except OSError:
        with suppress(OSError):
            actuator.close()
        raise
    return actuator


def _duty(settings: DeviceSettings, _leftovers: Leftovers) -> CpuActuator:
    return DutyCycle(core_step_s=settings.core_step_s)


def _cgroup(settings: DeviceSettings, leftovers: Leftovers) -> CpuActuator:
    return open_quota(settings.name, leftovers, settings.threads, settings.core_step_s)


def open_quota(
    name: str, leftovers: Leftovers, threads: int = 1, core_step_s: float = 0.0
) -> CpuActuator:
    """A quota of the CPU for this process, which was tried; an error if it cannot have one."""
    home = find_home(CGROUPS, OWN_GROUP)
    if home is None:
        raise MissingPartError("there is no control group with a CPU controller")
    rest = DutyCycle(run_s=math.inf, core_step_s=core_step_s)
    return _tried(CgroupQuota(home, name, leftovers, threads, rest=rest))


def _cpufreq(_settings: DeviceSettings, leftovers: Leftovers) -> CpuActuator:
    folders = policies(CPUS)
    if not folders:
        raise MissingPartError("this machine's CPU frequency cannot be set")
    return _tried(CpuFrequency(folders, leftovers))


CPU: dict[str, Callable[[DeviceSettings, Leftovers], CpuActuator]] = {
    "duty": _duty,
    "cgroup": _cgroup,
    "cpufreq": _cpufreq,
}


def open_uplinks(settings: EdgeSettings, port: int, leftovers: Leftovers) -> BandwidthActuator:
    """The actuator of an edge server; says in one line if nothing will be enforced."""
    if settings.bandwidth == "none":
        log.info("bandwidth: planned shares are not enforced on this server")
        return BandwidthActuator()
    actuator = TrafficControl(settings.interface, port, leftovers)
    try:
        actuator.open()
    except FedrtError as error:
        actuator.undo()
        log.warning("bandwidth: planned shares are not enforced on this server: %s", error)
        return BandwidthActuator()
    return actuator
