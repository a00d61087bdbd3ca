"""The folder of a study, in which every finished part is saved at once, so that it can resume.

    base.toml     the scenario before the settings that the study varies
    run.json      the options, with digests that identify the study when it is resumed
    points.jsonl  a line for each part that has ended: a digest of its input, and its result

A line is added as soon as its part has ended. One that a kill has cut short, or that was damaged,
does not match its checksum: its part is computed again.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedrt.errors import FedrtError, InfeasibleError, InputError, reason
from fedrt.records.directory import SUMMARY, open_folder, read_opened, source_digest
from fedrt.records.foreign import refuse_links
from fedrt.records.history import PARTS
from fedrt.records.summary import Summary
from fedrt.scenario import Scenario, scenario_text
from fedrt.scenario.entries import PROCESSES, import_paths
from fedrt.scenario.tables.fields import table_of
from fedrt.studies.estimates import Progress, estimate
from fedrt.system.files import BusyError
from fedrt.system.inputs import MOST_DATA, open_regular, refuse_larger
from fedrt.system.own_source import own_source
from fedrt.system.torn import clear_torn
from fedrt.validation import Listed, Maybe, Rule, Text

POINTS, BASE = "points.jsonl", "base.toml"
MOST_POINTS_BYTES = 2**30
SYNC_EVERY_S = 1.0
"""Seconds between flushes to disk; results not yet flushed survive a kill of the process."""
CHANGED = {
    "scenario": "the scenario or a trace it names",
    "asked": "what was asked for",
    "policies": "the code of a policy",
    "processes": "the code of a channel, bandwidth or backhaul",
    "code": "the code of fedrt",
}

Asked = Mapping[str, Any]


class Points:
    """The results of a study so far, each saved as soon as it is there.

    They are keyed by digests of what they depend on.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.known = dict(_read_lines(file))
        self.synced_at = time.monotonic()

    def once(
        self,
        asked: Mapping[str, Any],
        make: Callable[[], Any],
        good: Callable[[Any], bool] = lambda value: True,
    ) -> Any:
        """The result of `make` as plain data, or the one saved earlier if it is `good`."""
        key = digest(json.dumps(asked, sort_keys=True))
        if key not in self.known or not good(self.known[key]):
            text = json.dumps(make())
            line = f'{{"key": "{key}", "check": "{digest(key + text)}", "value": {text}}}\n'
            self._append(line.encode())
            self.known[key] = json.loads(text)
        return self.known[key]

    def known_value(self, asked: Mapping[str, Any]) -> Any:
        """The result that was saved earlier; None if there is none."""
        return self.known.get(digest(json.dumps(asked, sort_keys=True)))

    def _append(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self.file, line) :]
            if time.monotonic() - self.synced_at > SYNC_EVERY_S:
                os.fsync(self.file)
                self.synced_at = time.monotonic()
        except OSError as error:
            raise FedrtError(f"{POINTS}: cannot be written: {reason(error)}") from None


def _read_lines(file: int) -> Iterator[tuple[str, Any]]:
    """The complete lines of the file; an incomplete last line is removed."""
    end = 0
    with open(file, "rb", closefd=False) as lines:
        lines.seek(0)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            end += len(line)
            try:
                found = json.loads(line)
                key, value = found["key"], found["value"]
                if found["check"] == digest(key + json.dumps(value)):
                    yield key, value
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
    os.ftruncate(file, end)


def digest(text: str) -> str:
    """A short digest of a text."""
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def make_study(
    path: Path, scenario: Scenario, said: Mapping[str, Any], asked: Asked, base: str, same: Asked
) -> Path:
    """Create the folder of a new study; `same` are the digests of `same_study`."""
    study = {"study": dict(asked), "digests": dict(same)}
    return open_folder(path, scenario, {**said, **study}, {BASE: base, POINTS: ""})


@contextmanager
def opened_points(path: Path) -> Iterator[Points]:
    """The results in a study's folder, locked for this process until the block ends."""
    import fcntl

    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path / POINTS, flags)
    except OSError as error:
        raise InputError(f"{path / POINTS}: cannot be opened: {reason(error)}") from None
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise InputError(f"{path / POINTS}: must be a regular file")
        refuse_larger(path / POINTS, state.st_size, MOST_POINTS_BYTES)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BusyError(f"{path}: another process is at this study") from None
        clear_torn(path)
        yield Points(file)
    finally:
        os.close(file)


def read_study(path: Path, kind: str, names: Iterable[str]) -> dict[str, Any]:
    """The options with which the study in a folder was started, as typed."""
    refuse_links(path)
    run, where = read_opened(path, "a study"), path / "run.json"
    asked = run.get("study")
    if not isinstance(asked, dict) or asked.get("kind") != kind:
        raise InputError(f"{path}: is no study of fedrt {kind} that can go on")
    for name in (BASE, POINTS):
        if not os.path.isfile(path / name):
            raise InputError(f"{path}: has no {name}: it cannot go on")
    problems: list[str] = []
    text = Text(100_000, lines=True)
    for name in names:
        value = asked.get(name)
        rule: Rule = Listed(text, most=1000) if isinstance(value, list) else Maybe(text)
        if not isinstance(value, bool):
            rule.read(value, f"{where}: study.{name}", problems)
    if problems:
        raise InputError(problems)
    return {name: asked.get(name) for name in names}


def same_study(
    asked: Asked, scenarios: Sequence[Scenario], policies: Sequence[str]
) -> dict[str, str]:
    """Digests of everything that the results of a study depend on.

    A study does not train: the code of a model or a data set counts for nothing, and is not loaded.
    """
    paths = [name.partition("(")[0] for name in policies]
    own = [own_source(path, "policy") for path in paths if ":" in path]
    named = {(name, path) for each in scenarios for name, path in import_paths(each).items()}
    own_processes = [(name, path) for name, path in sorted(named) if name in PROCESSES]
    processes = [own_source(path, f"scenario.{name}") for name, path in own_processes]
    texts = dict.fromkeys(scenario_text(each, anywhere=True) for each in scenarios)
    files = dict.fromkeys(name for each in scenarios for name in _traces(table_of(each)))
    return {
        "scenario": digest(json.dumps([*texts, *map(_digest_of_file, files)])),
        "asked": digest(json.dumps(dict(asked), sort_keys=True)),
        "policies": digest(json.dumps(own)),
        "processes": digest(json.dumps(processes)),
        "code": source_digest(),
    }


def check_same(path: Path, same: Asked) -> None:
    """Raise an error if a study is no longer what it was when it was started."""
    before = read_opened(path, "a study").get("digests")
    before = before if isinstance(before, dict) else {}
    changed = [words for name, words in CHANGED.items() if before.get(name) != same[name]]
    if changed:
        what = " and ".join(changed)
        raise InputError(f"{path}: cannot go on: {what} changed since it was begun; begin it anew")


def _traces(table: Any) -> Iterator[str]:
    """The trace files that a scenario names."""
    for value in table.values():
        if isinstance(value, dict):
            if value.get("kind") == "trace" and isinstance(value.get("file"), str):
                yield value["file"]
            yield from _traces(value)


def _digest_of_file(file: str) -> str:
    found = blake2b(digest_size=16)
    try:
        with open_regular(Path(file), MOST_DATA) as source:
            while piece := source.read(2**20):
                found.update(piece)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from None
    return found.hexdigest()


def kept_estimate(
    scenario: Scenario,
    policy: str,
    seeds: Sequence[int],
    points: Points | None,
    progress: Callable[[str, int], Progress] | None = None,
) -> list[Summary]:
    """The estimates of a policy on every seed, each saved as soon as it has ended."""
    if points is None:
        return estimate(scenario, [policy], seeds, device_rows=False, progress=progress)[policy]
    text, runs = digest(scenario_text(scenario, anywhere=True)), []
    for seed in seeds:

        def make(seed: int = seed) -> dict[str, Any]:
            try:
                found = estimate(scenario, [policy], [seed], device_rows=False, progress=progress)
            except InfeasibleError as error:
                return {"infeasible": error.lines}
            return {"summary": found[policy][0]}

        asked = {"scenario": text, "policy": policy, "seed": seed}
        outcome = points.once(asked, make, _is_outcome)
        if "infeasible" in outcome:
            raise InfeasibleError(outcome["infeasible"])
        runs.append(outcome["summary"])
    return runs


def _is_outcome(value: Any) -> bool:
    """Whether a saved value has everything that an estimate has."""
    if not isinstance(value, dict):
        return False
    summary, lines = value.get("summary"), value.get("infeasible")
    if isinstance(summary, dict) and summary.keys() >= {*SUMMARY}:
        parts = summary["time_parts"]
        return isinstance(parts, dict) and parts.keys() >= {*PARTS}
    return isinstance(lines, list) and bool(lines) and all(isinstance(x, str) for x in lines)
