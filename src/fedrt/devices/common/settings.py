"""The settings of each party: from options, else the environment, else its TOML file.

A variable of the environment has the name of the party and the setting, as FEDRT_EDGE_LISTEN. Paths
in a file are relative to it; others to the folder that the command is given in.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fedrt.data.split import read_own
from fedrt.devices.common.metrics import address_of
from fedrt.devices.common.places import folder_problems, port_problems
from fedrt.devices.security import Files, Party
from fedrt.devices.security.party import NAME, NAME_RULE
from fedrt.errors import InputError, reason
from fedrt.quantities import SEED
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.classes import settings_in
from fedrt.scenario.entries import path_problems
from fedrt.scenario.model import MEASURED
from fedrt.scenario.tables.fields import read_table, setting
from fedrt.system.inputs import read_text
from fedrt.validation import Flag, Listed, Maybe, OneOf, Real, Text, Whole, problem
from fedrt.world.fleet import edge_of_devices

P = TypeVar("P", bound="PartySettings")

PATH, ADDRESS = Text(4000), Text(300)
PATHS = ("scenario", "ca", "certificate", "key", "revoked", "state", "data", "out")
PORTS = range(1, 65536)


@dataclass(frozen=True)
class PartySettings:
    """What every party needs to know."""

    scenario_file: str = setting(PATH)
    seed: int = setting(SEED, 0)
    ca: str = setting(PATH, "ca.pem")
    certificate: str | None = setting(Maybe(PATH), None)
    """Default: the party's name with .pem, in the folder of `ca`."""
    key: str | None = setting(Maybe(PATH), None)
    """Default: the party's name with .key, in the folder of `ca`."""
    revoked: str | None = setting(Maybe(PATH), None)
    """The list of revoked certificates. Default: revoked.pem beside `ca`."""
    log_json: bool = setting(Flag(), False)
    metrics: str | None = setting(Maybe(ADDRESS), None)
    """HOST:PORT or PORT of /healthz and /metrics; a port alone is on loopback."""
    name: str = "coordinator"

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario in the party's own file."""
        found = load_scenario(self.scenario_file)
        if lines := _unreal(found):
            raise InputError(lines)
        return found

    @property
    def files(self) -> Files:
        """The party's certificate, its key, and what it trusts."""
        folder = Path(self.ca).parent
        revoked = folder / "revoked.pem" if self.revoked is None else Path(self.revoked)
        return Files(
            ca=Path(self.ca),
            certificate=Path(self.certificate or folder / f"{self.name}.pem"),
            key=Path(self.key or folder / f"{self.name}.key"),
            revoked=revoked,
        )

    @property
    def role(self) -> str:
        """What the party is: coordinator, edge or device."""
        return self.name.partition("-")[0]

    @property
    def number(self) -> int:
        """The party's number in the scenario."""
        return int(self.name.rpartition("-")[2])

    def problems(self) -> list[str]:
        """What keeps the party from starting, a line each."""
        if lines := self.scenario_problems():
            return lines
        found: list[str] = []
        if self.metrics is not None:
            try:
                address_of(self.metrics)
            except InputError as error:
                found += error.lines
        return [*found, *self.files.problems(Party(self.role, self.name))]

    def scenario_problems(self) -> list[str]:
        """What is wrong with the scenario, or with the party's name in it, a line each."""
        try:
            self._check_name(self.scenario)
        except InputError as error:
            return error.lines
        return path_problems(self.scenario, data=False)

    def code_problems(self) -> list[str]:
        """What code of one's own in the scenario cannot be loaded, a line each; loads it."""
        return path_problems(self.scenario, data=False, load=True)

    def data_problems(self) -> list[str]:
        """What is wrong with the party's data file, a line each; reads the whole of it."""
        return []

    def port_problems(self) -> list[str]:
        """The ports that another process listens on, a line each."""
        if self.metrics is None:
            return []
        return port_problems("metrics", self.metrics, *address_of(self.metrics))

    def _check_name(self, scenario: Scenario) -> None:
        return


@dataclass(frozen=True)
class EdgeSettings(PartySettings):
    """The settings of an edge server."""

    listen: str = setting(ADDRESS, "127.0.0.1:7100")
    coordinator: str = setting(Text(63), "coordinator")
    """The name in the certificate of the coordinator whose orders are taken."""
    state_folder: str | None = setting(Maybe(PATH), None)
    """Where states are kept. Default: state/NAME."""
    keep_updates: bool = setting(Flag(), False)
    """Whether updates and states of past rounds stay there, to be looked at."""
    bandwidth: str = setting(OneOf(("none", "tc")), "none")
    """What holds the uploads of devices to their planned rates."""
    interface: str = setting(Text(15), "eth0")
    """The network interface on which devices reach this server; for `tc`."""

    @property
    def state(self) -> Path:
        return Path(self.state_folder or f"state/{self.name}")

    def problems(self) -> list[str]:
        found = [*super().problems(), *address_problems("listen", self.listen)]
        if not NAME.fullmatch(self.coordinator):
            found.append(problem("coordinator", self.coordinator, NAME_RULE))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", self.interface):
            found.append(problem("interface", self.interface, "the name of a network interface"))
        return [*found, *folder_problems("state", self.state)]

    def port_problems(self) -> list[str]:
        host, _, port = self.listen.rpartition(":")
        return [*port_problems("listen", self.listen, host, int(port)), *super().port_problems()]

    def _check_name(self, scenario: Scenario) -> None:
        _check_number("edge", self.name, scenario.fleet.num_edges)


@dataclass(frozen=True)
class DeviceSettings(PartySettings):
    """The settings of a device agent."""

    edge: str = setting(ADDRESS, "127.0.0.1:7100")
    data: str = setting(PATH, "")
    state_folder: str | None = setting(Maybe(PATH), None)
    threads: int = setting(Whole(1, 4096), 1)
    preload: bool = setting(Flag(), False)
    """Whether torch and the model are loaded at the start, and not with the first order."""
    bandwidth: str = setting(OneOf(("none", "pacer")), "none")
    """What holds uploads to their planned rates."""
    cpu: str = setting(OneOf(("none", "duty", "cgroup", "cpufreq")), "none")
    """What holds training to its planned CPU frequency."""
    cpu_share: float = setting(Real(above=0, most=1), 1.0)
    """The share of the processor's full speed that stands for the device's `cpu_max_hz`."""
    core_step_s: float = setting(Real(least=0, most=1e6), 0.0)
    """Seconds of a local step on the whole processor, by which `duty` and `cgroup` hold training to
    its planned frequency; 0: they hold it to a share of the CPU time."""
    meter: str = setting(OneOf(("auto", "rapl", "ina", "hwmon", "none")), "auto")
    """What measures the energy of training; it is modelled where there is nothing."""

    @property
    def own_edge(self) -> str:
        """The name of the edge server that the scenario gives the device to."""
        return f"edge-{edge_of_devices(self.scenario)[self.number]}"

    @property
    def state(self) -> Path:
        return Path(self.state_folder or f"state/{self.name}")

    def problems(self) -> list[str]:
        found = [*super().problems(), *address_problems("edge", self.edge)]
        if not Path(self.data).is_file():
            found.append(problem("data", self.data, "a file that `fedrt data split` wrote"))
        return [*found, *folder_problems("state", self.state)]

    def data_problems(self) -> list[str]:
        return _data_problems(self, self.data, self.number)

    def _check_name(self, scenario: Scenario) -> None:
        _check_number("device", self.name, scenario.fleet.num_devices)


@dataclass(frozen=True)
class CoordinatorSettings(PartySettings):
    """The settings of the coordinator."""

    edges: tuple[str, ...] = setting(Listed(ADDRESS), ())
    """HOST:PORT of every edge server, in the order of their numbers."""
    data: str = setting(PATH, "")
    """The file server.npz that `fedrt data split` wrote, with the test samples."""
    policy: str = setting(Text(300), "fedrt")
    out: str | None = setting(Maybe(PATH), None)
    wait_s: float = setting(Real(least=0, most=1e6), 60.0)
    """How long to wait for all devices and links before the first round."""
    least_devices: int = setting(Whole(0, 10**7), 1)
    """How many devices have to be connected for a round to begin."""
    deadline_factor: float = setting(Real(above=0, most=1e6), 3.0)
    least_deadline_s: float = setting(Real(least=0, most=1e6), 30.0)
    """A deadline is the planned time of the round times the factor, and at least this."""

    @property
    def role(self) -> str:
        return "coordinator"

    def problems(self) -> list[str]:
        from fedrt.policies import make_policy

        found = super().problems()
        try:
            make_policy(self.policy)
        except InputError as error:
            found += error.lines
        for place, address in enumerate(self.edges):
            found += address_problems(f"edges[{place}]", address)
        if not found and len(self.edges) != self.scenario.fleet.num_edges:
            rule = f"the addresses of {self.scenario.fleet.num_edges} edge servers"
            found.append(f"edges: has {len(self.edges)} entries: must be {rule}")
        if not Path(self.data).is_file():
            rule = "the file server.npz that `fedrt data split` wrote"
            found.append(problem("data", self.data, rule))
        return found

    def data_problems(self) -> list[str]:
        return _data_problems(self, self.data, None)


def _unreal(scenario: Scenario) -> list[str]:
    """What a scenario has that only a simulation can, a line each."""
    found = []
    if scenario.faults is not None:
        found.append("scenario.faults: must not be there: what fails on real devices is not drawn")
    rule = "a number on real devices: `fedrt data split` prints it"
    if scenario.learning.model_bits == MEASURED:
        found.append(problem("scenario.learning.model_bits", MEASURED, rule))
    if MEASURED in settings_in(scenario.fleet, "cycles_per_sample"):
        found.append(problem("scenario.fleet.cycles_per_sample", MEASURED, rule))
    return found


def _data_problems(settings: PartySettings, data: str, device: int | None) -> list[str]:
    from fedrt.learning.remote.checks import refuse_unfit

    try:
        own = read_own(Path(data), device)
        refuse_unfit(settings.scenario, own, settings.seed, Path(data))
    except InputError as error:
        return error.lines
    return []


def read_settings(cls: type[P], options: Mapping[str, Any], config: Path | None, name: str) -> P:
    """The settings of a party; an error says all that is wrong."""
    problems: list[str] = []
    known = {f.name: f.metadata["rule"] for f in fields(cls) if "rule" in f.metadata}
    table: dict[str, Any] = {}
    if config is not None:
        table = _located(_read_toml(config), config.parent)
    prefix = f"FEDRT_{cls.__name__.removesuffix('Settings').upper()}_"
    for key, rule in known.items():
        text = os.environ.get(prefix + key.upper().removesuffix("_FILE").removesuffix("_FOLDER"))
        if text is not None:
            table[key] = from_text(text, rule)
    for key, value in options.items():
        if value is not None:
            table[key] = from_text(value, known[key]) if isinstance(value, str) else value
    found = read_table(cls, table, config.name if config else "settings", problems)
    if found is None:
        raise InputError(problems)
    object.__setattr__(found, "name", name)
    return found


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML: {reason(error)}") from None


def _located(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The table with the names that code uses, and paths relative to its file."""
    for short, long in (("scenario", "scenario_file"), ("state", "state_folder")):
        if short in table:
            table[long] = table.pop(short)
    for key in (*PATHS, "scenario_file", "state_folder"):
        value = table.get(key)
        is_file = isinstance(value, str) and (folder / value).exists()
        if isinstance(value, str) and (is_file or key != "scenario_file"):
            table[key] = str(folder / value)
    return table


def from_text(text: str, rule: Any) -> Any:
    """A value that was typed, as its rule takes it."""
    rule = getattr(rule, "rule", rule)
    if isinstance(rule, Whole | Real):
        try:
            return float(text)
        except ValueError:
            return text
    if isinstance(rule, Flag):
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    if isinstance(rule, Listed):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def address_problems(name: str, address: str) -> list[str]:
    """What is wrong with HOST:PORT, if anything."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\s]+):([0-9]{1,5})", address)
    if found is None or int(found[2]) not in PORTS:
        return [problem(name, address, "HOST:PORT")]
    return []


def _check_number(kind: str, name: str, count: int) -> None:
    found = re.fullmatch(rf"{kind}-(0|[1-9][0-9]{{0,8}})", name)
    if found is None or int(found[1]) >= count:
        rule = f"{kind}-0 to {kind}-{count - 1}, as the scenario has {count}"
        raise InputError(problem("name", name, rule))
