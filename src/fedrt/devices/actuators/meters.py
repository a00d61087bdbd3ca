"""Meters of energy that a machine may have: RAPL, sensors of hwmon, INA sensors on boards."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

SAMPLE_S = 0.05
"""How often a sensor of power is read while something is measured."""
JOULES = ("amd_energy", "zenergy")
WATTS = ("power_meter", "scpi_sensors", "scmi_sensors")
"""Names of hwmon's sensors that measure the processor or the whole machine."""


class Meter(Protocol):
    """Measures the energy that the machine spends from start to stop."""

    @property
    def words(self) -> str:
        """What it is."""

    def start(self) -> None:
        """Begin to measure."""

    def stop(self) -> float | None:
        """The joules since the start; None if they could not be read."""


@dataclass(frozen=True)
class Counter:
    """A file that counts microjoules, from 0 again beyond `most`."""

    path: Path
    most: int = 0

    def since(self, before: int) -> float:
        """The joules since an earlier count."""
        now = int(self.path.read_text())
        return (now - before + (self.most if now < before else 0)) / 1e6


class CounterMeter:
    """The sum of counters: RAPL's packages, or hwmon's sensors of energy."""

    def __init__(self, words: str, counters: list[Counter]) -> None:
        self.words, self._counters = words, counters
        self._before: list[int] | None = None

    def start(self) -> None:
        try:
            self._before = [int(each.path.read_text()) for each in self._counters]
        except (OSError, ValueError):
            self._before = None

    def stop(self) -> float | None:
        if self._before is None:
            return None
        try:
            pairs = zip(self._counters, self._before, strict=True)
            return sum(each.since(before) for each, before in pairs)
        except (OSError, ValueError):
            return None


class PowerMeter:
    """The sum of sensors of power in microwatts, read again and again and added up over time."""

    def __init__(
        self, words: str, paths: list[Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.words, self._paths, self._clock = words, paths, clock
        self._ended, self._thread = Event(), Thread()
        self._last: tuple[float, float] | None = None
        self._joules: float | None = 0.0

    def start(self) -> None:
        self._joules, self._last = 0.0, None
        self.sample()
        self._ended = Event()
        self._thread = Thread(target=self._watch, args=(self._ended,), daemon=True)
        self._thread.start()

    def stop(self) -> float | None:
        self._ended.set()
        self._thread.join()
        self.sample()
        return self._joules

    def sample(self) -> None:
        """Read the sensors once: the power between two readings is their mean."""
        try:
            watts = sum(int(path.read_text()) for path in self._paths) / 1e6
        except (OSError, ValueError):
            self._joules = None
            return
        now = self._clock()
        if self._joules is not None and self._last is not None:
            before, then = self._last
            self._joules += (watts + then) / 2 * (now - before)
        self._last = (now, watts)

    def _watch(self, ended: Event) -> None:
        while not ended.wait(SAMPLE_S):
            self.sample()


def find_meter(sys: Path = Path("/sys"), kind: str = "auto") -> Meter | None:
    """The first meter that is there and can be read: RAPL, INA, hwmon; None without one."""
    finders = {"rapl": _rapl, "ina": _ina, "hwmon": _hwmon}
    for name, find in finders.items():
        if kind in ("auto", name) and (meter := find(sys / "class")) is not None:
            meter.start()
            if meter.stop() is not None:
                return meter
    return None


def _rapl(classes: Path) -> Meter | None:
    """The packages; what is inside a package (intel-rapl:0:0) is part of it."""
    found = []
    for path in sorted(classes.glob("powercap/intel-rapl:*/energy_uj")):
        if path.parent.name.count(":") == 1 and _text(path.parent / "name").startswith("package"):
            found.append(Counter(path, int(_text(path.parent / "max_energy_range_uj") or 0)))
    return CounterMeter("RAPL", found) if found else None


def _ina(classes: Path) -> Meter | None:
    return _sensors(classes, "INA", lambda name: name.startswith("ina"), "power*_input")


def _hwmon(classes: Path) -> Meter | None:
    energy = [
        Counter(path)
        for folder in sorted(classes.glob("hwmon/hwmon*"))
        if _text(folder / "name") in JOULES
        for path in sorted(folder.glob("energy*_input"))
    ]
    if energy:
        return CounterMeter("hwmon", energy)
    found = _sensors(classes, "hwmon", lambda name: name in WATTS, "power*_input")
    return found or _sensors(classes, "hwmon", lambda name: name in WATTS, "power*_average")


def _sensors(
    classes: Path, words: str, fits: Callable[[str], bool], files: str
) -> PowerMeter | None:
    found = [
        path
        for folder in sorted(classes.glob("hwmon/hwmon*"))
        if fits(_text(folder / "name"))
        for path in sorted(folder.glob(files))
    ]
    return PowerMeter(words, found) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
