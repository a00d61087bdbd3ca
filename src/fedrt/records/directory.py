"""The run folder, which all later commands read and write (docs/runs.md).

    config.toml       the whole scenario, with its schema version
    run.json          what ran: policy, seed, command, and the format's version
    identity.json     what a run that can resume is made from; it resumes with that only
    environment.json  versions, machine, commit
    rounds.parquet  edges.parquet  links.parquet  devices.parquet
    inputs.json       what the model of a trained run takes
    partition.parquet the data of a trained run: samples of each class on each device
    summary.json      the outcome; there when the run has ended

Every file is put in place whole, `rounds` after the tables it speaks of, so a cut at any instant
leaves a directory that reads.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedrt
from fedrt.errors import FedrtError, InputError, reason
from fedrt.measures import measure_of
from fedrt.quantities import SEED
from fedrt.records.foreign import open_lock
from fedrt.records.history import History
from fedrt.records.identity import KEY, Identity
from fedrt.scenario import Scenario, load_scenario, scenario_text
from fedrt.scenario.entries import import_paths
from fedrt.system.files import BusyError, whole_folder, write_json, write_text, write_whole
from fedrt.system.inputs import parse_json, read_text
from fedrt.validation import Text, problem

IntArray = NDArray[np.int64]

FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
"""Older folders can be shown, but a run in one cannot be resumed."""
BEFORE = "before"
"""The folder in a branch with what the run before it was started with."""
INPUTS = "inputs.json"
"""The file that says what the model of a trained run takes."""
TABLES = ("devices", "links", "edges", "rounds")
SUMMARY = (
    *("scenario", "policy", "seed", "global_rounds", "total_time_s", "energy_j_mean"),
    *("energy_j_max", "over_budget_devices", "over_budget_j", "time_parts"),
)
TRAINED_SUMMARY = ("best_accuracy", "final_accuracy", "targets", "wall_s")
"""The entries of every summary, and the further ones of trained runs, judged by accuracy."""
LIBRARIES = ("numpy", "numba", "pyarrow", "torch")
SOURCES = (".", ":!results", ":!benchmarks/results", ":!docs", ":!*.md")
"""The files of a checkout by which results may differ, for git: not results and pages."""
LONGEST_NAME = 200
"""Characters of a run directory's name; systems take 255 bytes."""
ROWS_IN_A_GROUP = 2**15
"""Rows of a table in a group; a reader that follows a run reads only new groups."""
MOST_OF_THE_TIME = 0.05
"""The greatest share of a run's real time that saving its tables may take."""


def run_name(policy: str, seed: int) -> str:
    """The name of the folder of one run among several, without characters such as `:`.

    A policy's name may come from a file: one that would lead elsewhere is refused.
    """
    name = f"{policy.replace(':', '.')}-{seed}"
    if (
        name[0] in ".-"
        or len(name) > LONGEST_NAME
        or not name.isprintable()
        or set(name) & {*"/\\"}
    ):
        rule = f"a name for a folder: at most {LONGEST_NAME} characters, no / or \\, no . in front"
        raise InputError(problem("policy", policy, rule))
    return name


class RunDirectory:
    """The folder of one policy and seed while it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.next_save_at = 0.0

    @staticmethod
    def create(
        path: Path,
        scenario: Scenario,
        policy: str,
        seed: int,
        command: str,
        options: Mapping[str, Any] | None = None,
        identity: Identity | None = None,
    ) -> RunDirectory:
        """Create a run folder that describes what is about to run."""
        run = {"policy": policy, "seed": seed, "command": command}
        said = run | ({} if options is None else {"options": dict(options)})
        open_folder(path, scenario, said, identity=identity)
        return RunDirectory(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from continuing the same run until the block ends.

        The lock also ends with the process.
        """
        import fcntl

        try:
            file = open_lock(self.path / ".lock")
        except OSError as error:
            raise FedrtError(f"{self.path / '.lock'}: cannot be written: {reason(error)}") from None
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyError(f"{self.path}: another process is at this run") from None
            yield
        finally:
            os.close(file)

    def save_sometimes(self, history: History) -> None:
        """Save the tables unless they were saved a short while ago."""
        began = time.monotonic()
        if began < self.next_save_at:
            return
        self.save(history)
        took = time.monotonic() - began
        self.next_save_at = began + max(1.0, took / MOST_OF_THE_TIME)

    def save(self, history: History) -> None:
        """Save all tables with their rows so far."""
        from pyarrow import parquet

        tables = history.tables()
        for name in TABLES:
            if name in tables:
                write = partial(parquet.write_table, tables[name], row_group_size=ROWS_IN_A_GROUP)
                write_whole(self.path / f"{name}.parquet", write)

    def save_partition(self, class_counts: IntArray, edge_of_device: IntArray) -> None:
        """Save the number of samples of every class on every device, devices x classes."""
        import pyarrow as pa
        from pyarrow import parquet

        device, label = np.nonzero(class_counts)
        columns = {"device": device, "edge": edge_of_device[device], "label": label}
        table = pa.table(columns | {"samples": class_counts[device, label]})
        write_whole(self.path / "partition.parquet", partial(parquet.write_table, table))

    def finish(self, summary: dict[str, Any]) -> None:
        """Save the summary, which marks the run as ended; its tables are saved before."""
        write_json(self.path / "summary.json", summary)


def open_folder(
    path: Path,
    scenario: Scenario,
    run: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
    identity: Identity | None = None,
    fill: Callable[[Path], None] | None = None,
) -> Path:
    """Create a folder for results that describes what is about to run, and on which machine.

    It appears under its name with all of that inside, or not at all. `more` are further files, and
    `fill` may put in others. A run that can be resumed has an identity.
    """
    with whole_folder(path) as folder:
        if identity is not None:
            identity.save(folder)
            run = {**run, KEY: identity.digest}
        if fill is not None:
            fill(folder)
        write_text(folder / "config.toml", scenario_text(scenario, anywhere=True))
        write_json(folder / "run.json", {"format_version": FORMAT_VERSION, **run})
        write_json(folder / "environment.json", environment())
        for name, text in (more or {}).items():
            write_text(folder / name, text)
    return path


@dataclass(frozen=True)
class SavedRun:
    """The description of a run that its folder holds."""

    scenario: Scenario
    policy: str
    seed: int
    options: Any
    """The training options; None for a run without training."""
    summary: dict[str, Any] | None
    """None while the run has not ended."""
    run: Mapping[str, Any]
    """The whole contents of run.json."""


def read_run(path: Path) -> SavedRun:
    """The description of the run in a folder; an error if it holds none."""
    where, run = path / "run.json", read_opened(path, "a run directory")
    problems: list[str] = []
    policy = Text().read(run.get("policy"), f"{where}: policy", problems)
    seed = SEED.read(run.get("seed"), f"{where}: seed", problems)
    summary = path / "summary.json"
    outcome = _read_json(summary) if summary.exists() else None
    if outcome is not None and not isinstance(outcome, dict):
        problems.append(problem(str(summary), outcome, "a table of named fields"))
    elif outcome is not None:
        needed = [*SUMMARY]
        if run.get("options") is not None:
            name = measure_of(outcome).name
            needed += [key.replace("accuracy", name) for key in TRAINED_SUMMARY]
        problems += [f"{summary}: {key}: missing" for key in needed if key not in outcome]
    if problems or policy is None or seed is None:
        raise InputError(problems)
    return SavedRun(
        scenario=load_scenario(path / "config.toml"),
        policy=policy,
        seed=seed,
        options=run.get("options"),
        summary=outcome,
        run=run,
    )


def refuse_old_format(path: Path, run: SavedRun) -> None:
    """Raise an error about an unfinished run whose record format cannot be resumed."""
    found = run.run["format_version"]
    if run.summary is None and found < FORMAT_VERSION:
        raise InputError(
            f"{path}: cannot go on: its format_version is {found}, whose records lack what was seen"
            f" and what happened in each round, which {FORMAT_VERSION} has; start the run anew"
        )


def read_opened(path: Path, what: str) -> dict[str, Any]:
    """The contents of run.json in a folder that `open_folder` created."""
    for name in ("run.json", "config.toml"):
        if not os.path.isfile(path / name):
            raise InputError(f"{path}: is not {what}: it has no {name}")
    run = _read_json(path / "run.json")
    found = run.get("format_version") if isinstance(run, dict) else None
    if type(found) is not int or found not in READABLE_VERSIONS:
        where = f"{path / 'run.json'}: format_version"
        rule = "one of " + ", ".join(map(str, READABLE_VERSIONS))
        raise InputError(problem(where, found, rule))
    return dict(run)


def asks_for_code(path: Path) -> bool:
    """Whether resuming the run in a folder would load a user's own code by import path."""
    return any(":" in text for text in code_in(path))


def code_in(path: Path) -> list[str]:
    """The texts in a folder of results that may name a user's own code, policies and others."""
    run = read_opened(path, "a folder of results")
    study = run.get("study")
    asked = study if isinstance(study, dict) else {}
    named = [run.get("policy"), *(run.get("policies") or ())]
    named += [asked.get("policy"), asked.get("policies")]
    named += import_paths(load_scenario(path / "config.toml")).values()
    return [name for name in named if isinstance(name, str)]


def _read_json(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def environment() -> dict[str, Any]:
    """Versions, commit, machine and how busy it is, by which a result can be traced.

    The load averages are those of one, five and fifteen minutes; where a system has none, None.
    """
    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "fedrt": fedrt.__version__,
        "commit": commit(),
        "source": source_digest(),
        "python": platform.python_version(),
        "libraries": libraries,
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_average": load_average(),
        "nice": niceness(),
    }


def load_average() -> list[float] | None:
    """The machine's load averages; None on systems that have none."""
    if not hasattr(os, "getloadavg"):
        return None
    return [round(load, 2) for load in os.getloadavg()]


def niceness() -> int | None:
    """How far this process lets others go first, from -20 to 19; None on systems without it."""
    return os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else None


def source_digest(package: Path | None = None) -> str:
    """A digest of the package's source, independent of git; or of that in another folder."""
    package = package or Path(fedrt.__file__).resolve().parent
    found = blake2b(digest_size=16)
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".toml", ".json"):
            found.update(path.relative_to(package).as_posix().encode() + b"\0")
            found.update(path.read_bytes() + b"\0")
    return found.hexdigest()


def processor() -> str:
    """The name of the processor, if the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def commit() -> str | None:
    """The git commit of the source tree this package runs from; None for an installed wheel.

    With `-dirty` behind it where files differ from the commit, other than results and pages.
    """
    package = Path(fedrt.__file__).resolve().parent
    root = package.parents[1]
    if not (root / ".git").exists() or package != root / "src" / "fedrt":
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *SOURCES)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}-dirty" if changed else head


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()
