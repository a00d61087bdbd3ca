"""Starts and stops the parties: `fedrt edge`, `fedrt device`, `fedrt coordinator`."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fedrt.devices.common.logs import start_logs
from fedrt.devices.common.settings import (
    CoordinatorSettings,
    DeviceSettings,
    EdgeSettings,
    PartySettings,
)
from fedrt.errors import InputError
from fedrt.system.extras import need

log = logging.getLogger(__name__)

Serve = Callable[[asyncio.Event], Awaitable[None]]


def check(settings: PartySettings, *, data: bool = False) -> None:
    """Raise an error with all that keeps a party from starting.

    With `data` its data file is read too, as it is by a party that starts.
    """
    if problems := settings.problems() or (settings.data_problems() if data else []):
        raise InputError(problems)


def serve_edge(settings: EdgeSettings) -> None:
    """Run an edge server until it is told to stop."""
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.edge.serve import serve

    _until_stopped(lambda stop: serve(settings, stop))


def serve_device(settings: DeviceSettings) -> None:
    """Run a device agent until it is told to stop."""
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.device.agent import DeviceAgent

    async def serve(stop: asyncio.Event) -> None:
        await DeviceAgent(settings).serve(stop)

    _until_stopped(serve)


def coordinate(settings: CoordinatorSettings, path: Path, command: str, **given: Any) -> Any:
    """Run a scenario on real devices; the summary."""
    need("fedrt coordinator", "torch")
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.coordinator.run import coordinate

    return coordinate(settings, path, command, **given)


def _until_stopped(serve: Serve) -> None:
    """Run a party; SIGTERM and Ctrl-C let it end what it is at."""

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(stop)

    asyncio.run(main())
