"""`fedrt.coordinator`, `fedrt.edge` and `fedrt.device`: the parties of a run on real devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from fedrt.api.session import command_text, note
from fedrt.errors import InputError
from fedrt.scenario.model import Scenario
from fedrt.system.extras import need
from fedrt.system.plugins import offered

if TYPE_CHECKING:  # an agent on a small board loads none of what reads policies and results
    from fedrt.api.asked import PolicyLike
    from fedrt.api.folders import Place
    from fedrt.api.results import RunResult
    from fedrt.devices.common.settings import DeviceSettings, EdgeSettings, PartySettings

P = TypeVar("P", bound="PartySettings")


class PartyOptions(TypedDict, total=False):
    """What every party takes; what is not given, or None, is read from environment or file."""

    config: Place | None
    """A TOML file with settings of the same names."""
    seed: int | str | None
    """The same for all parties of a run; the default is 0."""
    ca: Place | None
    """The certificates of the authorities to trust; the default is `ca.pem`."""
    certificate: Place | None
    """The default is the party's name with .pem, beside `ca`."""
    key: Place | None
    """The default is the party's name with .key, beside `ca`."""
    revoked: Place | None
    """The list of revoked certificates; the default is `revoked.pem` beside `ca`."""
    log_json: bool | None
    """Whether to log JSON objects, one in each line."""
    metrics: int | str | None
    """PORT or HOST:PORT of /healthz and /metrics; a port alone is on loopback."""


def coordinator(
    scenario: Place | None = None,
    *,
    name: str = "coordinator",
    edges: Sequence[str] | str | None = None,
    data: Place | None = None,
    policy: PolicyLike | None = None,
    out: Place | None = None,
    wait_s: float | str | None = None,
    least_devices: int | str | None = None,
    deadline_factor: float | str | None = None,
    least_deadline_s: float | str | None = None,
    check: bool = False,
    progress: bool = True,
    callbacks: Sequence[Any] = (),
    **options: Unpack[PartyOptions],
) -> RunResult | None:
    """Run a scenario on real devices, by way of their edge servers: `fedrt coordinator`.

    `scenario` is the TOML file that all parties have, `name` that of its certificate, which edge
    servers expect, `edges` are the addresses of all edge servers, edge-0's first, `data` is the
    file `server.npz` of `fedrt.data_split`. The run is saved in the folder `out`; if it is there,
    the run goes on. The first round waits `wait_s` seconds for all devices, and none begins without
    `least_devices`; a round ends after `deadline_factor` times its planned time, and not before
    `least_deadline_s`. With `check` nothing is started: an error says all that is wrong, and None
    comes back if nothing is.
    """
    from fedrt.api.asked import Objects, read_policy
    from fedrt.api.results import RunResult
    from fedrt.callbacks.base import check_callbacks
    from fedrt.records.directory import run_name

    check_callbacks(callbacks)
    need("fedrt coordinator", "grpc")
    from fedrt.devices import parties
    from fedrt.devices.common.settings import CoordinatorSettings

    objects = Objects()
    given = {
        "edges": edges if edges is None or isinstance(edges, str) else list(edges),
        "data": data,
        "policy": None if policy is None else read_policy(policy, objects),
        "out": out,
        "wait_s": wait_s,
        "least_devices": least_devices,
        "deadline_factor": deadline_factor,
        "least_deadline_s": least_deadline_s,
    }
    with offered(objects.found):
        settings = read_party(CoordinatorSettings, name, scenario, given, options)
        stem = f"devices-{settings.scenario.name}-{run_name(settings.policy, settings.seed)}"
        path = Path(settings.out or Path("runs") / stem.replace("/", "-"))
        if check:
            parties.check_run(settings, path, note)
            return None
        command = command_text("coordinator")
        told = _print_round if progress else None
        summary = parties.coordinate(settings, path, command, told, note, callbacks)
    return RunResult(path, summary, objects.found)


def edge(
    name: str,
    *,
    scenario: Place | None = None,
    listen: str | None = None,
    coordinator: str | None = None,
    state: Place | None = None,
    keep_updates: bool | None = None,
    bandwidth: str | None = None,
    interface: str | None = None,
    check: bool = False,
    stop: Event | None = None,
    **options: Unpack[PartyOptions],
) -> EdgeSettings:
    """Run an edge server until it is told to stop: `fedrt edge`; its settings come back.

    `name` is edge-0, edge-1, ...; `scenario` is the TOML file that all parties have, `listen` is
    HOST:PORT, `coordinator` the name in the certificate of whose orders it takes, `state` the
    folder of what a restart needs. SIGTERM and Ctrl-C stop it, and so does `stop`, once it is set;
    a call in a thread needs that. With `check` nothing is started: an error says all that is wrong.
    """
    need("fedrt edge", "grpc")
    from fedrt.devices import parties
    from fedrt.devices.common.settings import EdgeSettings

    given = {
        "listen": listen,
        "coordinator": coordinator,
        "state_folder": state,
        "keep_updates": keep_updates,
        "bandwidth": bandwidth,
        "interface": interface,
    }
    settings = read_party(EdgeSettings, name, scenario, given, options)
    if check:
        parties.check(settings, whole=True)
    else:
        parties.serve_edge(settings, stop)
    return settings


def device(
    name: str,
    *,
    scenario: Place | None = None,
    edge: str | None = None,
    data: Place | None = None,
    state: Place | None = None,
    threads: int | str | None = None,
    preload: bool | None = None,
    bandwidth: str | None = None,
    cpu: str | None = None,
    cpu_share: float | str | None = None,
    core_step_s: float | str | None = None,
    meter: str | None = None,
    check: bool = False,
    stop: Event | None = None,
    **options: Unpack[PartyOptions],
) -> DeviceSettings:
    """Run the agent of a device until it is told to stop: `fedrt device`; its settings come back.

    `name` is device-0, device-1, ...; `scenario` is the TOML file that all parties have, `edge` the
    address of its edge server, HOST:PORT, `data` its file of `fedrt.data_split`, `state` the folder
    of what a restart needs. With `preload` torch and the model are loaded before it connects.
    SIGTERM and Ctrl-C stop it, and so does `stop`, once it is set; a call in a thread needs that.
    With `check` nothing is started: an error says all that is wrong; `own_edge` of the settings is
    the name of the edge server that it belongs to.
    """
    need("fedrt device", "grpc")
    from fedrt.devices import parties
    from fedrt.devices.common.settings import DeviceSettings

    given = {
        "edge": edge,
        "data": data,
        "state_folder": state,
        "threads": threads,
        "preload": preload,
        "bandwidth": bandwidth,
        "cpu": cpu,
        "cpu_share": cpu_share,
        "core_step_s": core_step_s,
        "meter": meter,
    }
    settings = read_party(DeviceSettings, name, scenario, given, options)
    if check:
        parties.check(settings, whole=True)
    else:
        parties.serve_device(settings, stop)
    return settings


def read_party(
    cls: type[P],
    name: str,
    scenario: Place | None,
    given: Mapping[str, Any],
    options: PartyOptions,
) -> P:
    """The settings of a party from what was given, the environment and its file."""
    from fedrt.devices.common.settings import read_settings

    known = PartyOptions.__annotations__
    if unknown := [key for key in options if key not in known]:
        raise TypeError(f"unknown options: {', '.join(unknown)}")
    if isinstance(scenario, Scenario):
        rule = "must be a file, which all parties have; `fedrt.scenario_text` is what is in it"
        raise InputError(f"`scenario`: {rule}")
    asked: dict[str, Any] = {**given, **options, "scenario_file": scenario}
    config = asked.pop("config", None)
    if isinstance(asked.get("metrics"), int):
        asked["metrics"] = str(asked["metrics"])
    found = {
        key: os.fspath(value) if isinstance(value, os.PathLike) else value
        for key, value in asked.items()
    }
    return read_settings(cls, found, None if config is None else Path(config), name)


def _print_round(done: Any) -> None:
    from fedrt.report.devices.lines import round_line

    print(round_line(done), flush=True)
