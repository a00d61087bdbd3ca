"""Starts and stops the parties: `fedrt edge`, `fedrt device`, `fedrt coordinator`."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
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

LOOK_S = 0.2
"""Between two looks at whether another thread has told a party to stop."""


def check(settings: PartySettings, *, whole: bool = False) -> None:
    """Raise an error with all that keeps a party from starting.

    With `whole` also with what it would find out as it starts: in its data file, on its ports.
    """
    problems = settings.problems()
    if whole and not problems:
        problems = settings.code_problems() or settings.data_problems()
        problems = [*problems, *settings.port_problems()]
    if problems:
        raise InputError(problems)


def check_run(settings: CoordinatorSettings, path: Path, note: Callable[[str], None]) -> None:
    """The same for a coordinator, whose run may have begun already; nothing is changed."""
    check(settings, whole=True)
    from fedrt.devices.coordinator.run import begun

    begun(settings, path, note)


def serve_edge(settings: EdgeSettings, stop: Event | None = None) -> None:
    """Run an edge server until it is told to stop."""
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.edge.serve import serve

    _until_stopped(lambda stopped: serve(settings, stopped), stop)


def serve_device(settings: DeviceSettings, stop: Event | None = None) -> None:
    """Run a device agent until it is told to stop."""
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.device.agent import DeviceAgent

    async def serve(stopped: asyncio.Event) -> None:
        await DeviceAgent(settings).serve(stopped)

    _until_stopped(serve, stop)


def coordinate(settings: CoordinatorSettings, path: Path, command: str, *given: Any) -> Any:
    """Run a scenario on real devices; the summary."""
    need("fedrt coordinator", "torch")
    check(settings)
    start_logs(settings.name, as_json=settings.log_json)
    from fedrt.devices.coordinator.run import coordinate

    return coordinate(settings, path, command, *given)


def _until_stopped(serve: Serve, stop: Event | None) -> None:
    """Run a party; SIGTERM and Ctrl-C let it end what it is at, and so does `stop` once it is set.

    Signals reach the main thread alone: a party in another one is told by `stop`.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here and stop is None:
        raise InputError(
            "`stop=threading.Event()`: has to be given in a thread, where no signal ends it"
        )
    with suppress(RuntimeError):  # there is none
        asyncio.get_running_loop()
        raise InputError("an event loop runs here, as in a notebook: call it in a thread")

    async def main() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT) if here else ():
            loop.add_signal_handler(number, stopped.set)
        told = None if stop is None else asyncio.create_task(_follow(stop, stopped))
        try:
            await serve(stopped)
        finally:
            if told is not None:
                told.cancel()

    asyncio.run(main())


async def _follow(stop: Event, stopped: asyncio.Event) -> None:
    """Hand on what another thread has set."""
    while not stop.is_set():
        await asyncio.sleep(LOOK_S)
    stopped.set()
