"""`fedrt calibrate`: measures this machine as a device of a scenario."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from fedrt.cost.uplink import seconds_to_send
from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.device import DeviceActuators
from fedrt.devices.calibration.fit import fit_steps
from fedrt.devices.calibration.network import (
    UnreachableError,
    UploadTimes,
    measure_uploads,
    tls_factor,
)
from fedrt.devices.calibration.result import Calibration
from fedrt.devices.calibration.training import TrainingRuns, measure_steps
from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.security import Party
from fedrt.errors import InputError
from fedrt.world.fleet import draw_fleet, edge_of_devices
from fedrt.world.simulated import SimulatedWorld

BUSY = 0.05
"""The part of its time that training may wait for the CPU before that is told."""
UNHELD = "the CPU cannot be held to a share: measured at full speed alone"


def problems(settings: DeviceSettings) -> list[str]:
    """What keeps a device from being measured, a line each; certificates are not needed."""
    return settings.scenario_problems() or settings.data_problems()


def calibrate(
    settings: DeviceSettings, shares: Sequence[float], seconds: float, repeats: int
) -> Calibration:
    """Measure training and uploads; leaves nothing on the machine."""
    from fedrt.learning.remote import EdgeModel, LocalTrainer

    scenario, seed, number = settings.scenario, settings.seed, settings.number
    if found := problems(settings):
        raise InputError(found)
    edge = int(edge_of_devices(scenario)[number])
    trainer = LocalTrainer.open(scenario, seed, number, Path(settings.data))
    model = EdgeModel.open(scenario, seed, edge, trainer.inputs)
    cpu_max_hz = float(draw_fleet(scenario, seed).cpu_max_hz[number])
    with _opened(settings, cpu_max_hz) as actuators:
        held = type(actuators.cpu) is not CpuActuator
        runs = TrainingRuns(trainer, model, actuators)
        steps = measure_steps(runs.train, shares if held else [1.0], seconds, repeats)
    notes = [] if held else [UNHELD]
    if runs.waited and (busy := statistics.median(runs.waited)) > BUSY:
        notes.append(
            f"the machine was busy: training waited for the CPU {100 * busy:.0f} % of the time"
        )
    upload, factor = asyncio.run(_network(settings, runs.message, repeats, notes))
    return Calibration(
        device=settings.name,
        edge=edge,
        cpu=settings.cpu if held else "none",
        cpu_share=settings.cpu_share if held else 1.0,
        cpu_max_hz=cpu_max_hz,
        batch_size=scenario.learning.batch_size,
        seconds=steps,
        fit=fit_steps(steps),
        tls_factor=factor,
        update_bytes=len(runs.message),
        upload=upload,
        radio_bps=radio_bps(settings),
        notes=notes,
        watts={share: statistics.median(each) for share, each in runs.watts.items()},
    )


@contextmanager
def _opened(settings: DeviceSettings, cpu_max_hz: float) -> Iterator[DeviceActuators]:
    """What holds the device to shares of its CPU; the folder of its state is as before then."""
    folder = settings.state.absolute()
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    actuators = DeviceActuators.open(settings, cpu_max_hz)
    try:
        yield actuators
    finally:
        actuators.close()
        for each in new:
            with suppress(OSError):
                each.rmdir()


async def _network(
    settings: DeviceSettings, message: bytes, repeats: int, notes: list[str]
) -> tuple[UploadTimes | None, float]:
    """Uploads to the edge server, if it can be reached, and what TLS and gRPC add."""
    upload = None
    if lines := settings.files.problems(Party("device", settings.name)):
        notes.append(f"no upload to the edge server was measured: {lines[0]}")
    else:
        try:
            upload = await measure_uploads(settings, message, repeats)
        except (UnreachableError, InputError) as error:
            notes.append(f"no upload to the edge server was measured: {error}")
    return upload, await tls_factor(message)


def radio_bps(settings: DeviceSettings) -> float:
    """The rate of the scenario's radio in the edge server's whole bandwidth, at first."""
    world = SimulatedWorld(settings.scenario, settings.seed)
    seen = world.observe(0, 0, np.array([settings.number]))
    (bit_s,) = seconds_to_send(seen, 1.0, seen.edge_bandwidth_hz[seen.edge_of_device])
    return float(1.0 / bit_s)
