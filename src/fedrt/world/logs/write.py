"""Traces written from logs: what was asked for is checked, logs are read, a file is written."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.system.files import TakenError, write_text
from fedrt.system.inputs import read_text
from fedrt.validation import Maybe, OneOf, Real, Rule, Whole, problem, shown
from fedrt.world.logs import FORMATS
from fedrt.world.logs.convert import TARGETS, Conversion, convert
from fedrt.world.logs.log import BadLogs, Log, Reader


@dataclass(frozen=True)
class ConvertedTrace:
    """A trace that was written from logs."""

    path: Path
    to: str
    """The section of a scenario that it is for."""
    global_rounds: int
    edge_rounds: int
    subjects: int
    """How many devices, edge servers or links it has: one for each log."""
    notes: tuple[str, ...] = ()
    """What the logs did not have."""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def toml(self) -> str:
        """The section of a scenario that uses it."""
        return f'[{self.to}]\nkind = "trace"\nfile = {json.dumps(str(self.path))}\nrepeat = true\n'


def write_trace(
    logs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    log_format: str,
    out: str | os.PathLike[str],
    to: str = "channel",
    edge_round_s: float = 10.0,
    edge_rounds: int = 2,
    global_rounds: int | None = None,
    links: str | Sequence[tuple[int, int]] | None = None,
    bits_per_hz: float | None = None,
    overwrite: bool = False,
) -> ConvertedTrace:
    """Read logs and write them as a trace; `fedrt.trace_convert` says what the parameters are."""
    names = [str(log) for log in ([logs] if isinstance(logs, str | os.PathLike) else logs)]
    path, problems = Path(out), list[str]()
    rules: list[tuple[str, object, Rule]] = [
        ("log_format", log_format, OneOf(tuple(FORMATS))),
        ("to", to, OneOf(TARGETS)),
        ("edge_round_s", edge_round_s, Real(above=0, most=1e9)),
        ("edge_rounds", edge_rounds, Whole(1, 10_000)),
        ("global_rounds", global_rounds, Maybe(Whole(1, 1_000_000))),
        ("bits_per_hz", bits_per_hz, Maybe(Real(above=0, most=1e3))),
    ]
    for name, value, rule in rules:
        rule.read(value, f"`{name}`", problems)
    pairs = _read_links(links, problems)
    if not problems:
        problems += _odd_options(to, pairs, bits_per_hz, len(names))
    if len(set(names)) < len(names) or not names:
        problems.append(problem("`logs`", names, "one or more files, each given once"))
    if path.suffix.lower() != ".csv":
        problems.append(problem("`out`", str(path), "a file whose name ends in .csv"))
    elif not os.path.isdir(path.parent):
        problems.append(f"`out` {shown(str(path))}: {path.parent} is not a folder")
    if problems:
        raise InputError(problems)
    if os.path.lexists(path) and not (overwrite and path.is_file() and not path.is_symlink()):
        raise TakenError(path)
    how = Conversion(to, edge_round_s, edge_rounds, global_rounds, pairs or (), bits_per_hz or 1.0)
    made = convert(_read_logs(names, FORMATS[log_format]), how)
    rows = zip(*(column.tolist() for column in made.columns.values()), strict=True)
    lines = (",".join(map(repr, row)) for row in rows)
    write_text(path, "\n".join([",".join(made.columns), *lines, ""]))
    return ConvertedTrace(path, to, made.global_rounds, edge_rounds, len(names), made.notes)


def _read_logs(names: Sequence[str], read: Reader) -> dict[str, Log]:
    """The logs by their names; all faults of all of them at once."""
    faults, others = BadLogs(), list[str]()
    logs: dict[str, Log] = {}
    for name in names:
        try:
            text = read_text(Path(name)).removeprefix("\ufeff")
        except (OSError, ValueError) as error:
            faults.add(name, f"cannot be read: {reason(error)}")
            continue
        except InputError as error:
            others += error.lines
            continue
        log = read(text, name, faults)
        if log is not None:
            logs[name] = log
    if faults.count or others:
        raise InputError(faults.lines() + others)
    return logs


def _read_links(
    links: str | Sequence[tuple[int, int]] | None, problems: list[str]
) -> tuple[tuple[int, int], ...] | None:
    """The pairs of edge servers in a text such as `0-1,1-2`, or as they are."""
    if links is None:
        return None
    words: list[Any] = list(links)
    if isinstance(links, str):
        words = [tuple(word.strip().split("-")) for word in links.split(",")]
        words = [tuple(int(n) if n.isdecimal() else n for n in pair) for pair in words]
    whole, found = Whole(0, 9_999), list[tuple[int, int]]()
    for pair in words:
        ends = [whole.read(end, "", []) for end in pair] if isinstance(pair, list | tuple) else []
        if len(ends) != 2 or None in ends or ends[0] == ends[1]:
            rule = "pairs of two different edge servers, 0-1,1-2"
            problems.append(problem("`links`", links, rule))
            return None
        found.append((int(ends[0]), int(ends[1])))  # type: ignore[arg-type]
    if len({frozenset(pair) for pair in found}) < len(found):
        problems.append(problem("`links`", links, "different links"))
    return tuple(found)


def _odd_options(
    to: str, pairs: Sequence[Any] | None, bits_per_hz: float | None, count: int
) -> list[str]:
    """A line for each option that a target needs and was not given, or does not know."""
    lines = []
    if to == "backhaul" and pairs is None:
        lines.append("`links`: missing; a backhaul needs the two edge servers of each log, 0-1,1-2")
    elif to == "backhaul" and pairs is not None and len(pairs) != count:
        lines.append(f"`links`: has {len(pairs)} links: must have one for each log ({count})")
    elif to != "backhaul" and pairs is not None:
        lines.append('`links`: only goes with `to` = "backhaul"')
    if to == "bandwidth" and bits_per_hz is None:
        lines.append("`bits_per_hz`: missing; a bandwidth is a log's rate over it")
    elif to != "bandwidth" and bits_per_hz is not None:
        lines.append('`bits_per_hz`: only goes with `to` = "bandwidth"')
    return lines
