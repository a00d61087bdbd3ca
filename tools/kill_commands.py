"""Kills every command that writes folders with -9 at random instants, and goes on until it ends.

    python tools/kill_commands.py --kills 8 --seed 0 [--only run,sweep]

A trial starts a command in a session of its own, kills its process (not those it has started), goes
on with `--resume` or by giving the command again, perhaps kills it again, and so on until it ends.
Then its folder must hold the same files with the same contents as one that was left alone, real
time aside; no other file, no process of the session and no shared memory of it may be left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FEW = ("--set", "rounds.global_rounds=4", "--set", "fleet.num_devices=8", "--set")
FEW += ("fleet.num_edges=3",)
TRAIN = ("--device", "cpu", "--chunk", "2", "--workers", "2")
POLICIES = ("--policies", "fedrt,ce-fedavg", "--seeds", "0,1")
MOST_KILLS = 2
"""In one trial."""
WAIT_S = 60
"""How long processes may take to notice that the one which started them is gone."""
PICTURES = (".png", ".svg", ".pdf", ".html")
SAID = ("run.json", "environment.json")
"""Files that say when and by which command, which differ."""
SAID_INSIDE = ("command", "environment")
"""The same, where a file that holds other things says it too."""


@dataclass(frozen=True)
class Command:
    """A command whose folder is `out`, how it goes on, and whether that is by another option."""

    begin: tuple[str, ...]
    resumes: bool = True
    out: str = "--out"
    sign: str = "run.json"
    """With this file in its folder there is something to go on with."""

    def words(self, out: Path) -> list[str]:
        """Begin, or go on once there is something to go on with."""
        if self.resumes and (out / self.sign).exists():
            return [*self.begin[:1], "--resume", str(out)]
        return [*self.begin, self.out, str(out)]


COMMANDS = {
    "run": Command(("run", "quickstart", *FEW, *TRAIN)),
    "compare": Command(
        ("compare", "quickstart", *FEW, *TRAIN, "--policies", "fedrt,static-t", "--seeds", "0")
    ),
    "sweep": Command(("sweep", "quickstart", *FEW, *POLICIES, "--vary", "bandwidth.scale=1,2,4")),
    "size": Command(
        ("size", "quickstart", *FEW, "--deadline", "5s", "--vary", "bandwidth.scale=1..64")
    ),
    "front": Command(("front", "quickstart", *FEW, *POLICIES, "--budgets", "0.05,0.1,0.2")),
    "import": Command(("data", "import", "mnist", "GIVEN"), resumes=False, out="--data-dir"),
    "reproduce": Command(
        (
            *("reproduce", "table", "--quick", *TRAIN, "--data-dir", "GIVEN", "--seeds", "0"),
            *("--only", "fmnist-iid", "--cells", "*/fedrt-0,*/ce-fedavg-0"),
        ),
        resumes=False,
    ),
}


@dataclass
class Session:
    """One process and those it starts."""

    words: list[str]
    folder: Path
    pids: set[int] = field(default_factory=set)

    @property
    def cache(self) -> Path:
        """One for all trials of a command: how local steps are carried out is measured once.

        What other processes on this machine measure meanwhile must not change it, for it moves the
        rounding of sums.
        """
        return self.folder.parent / "cache"

    def run(self, limit_s: float | None) -> bool:
        """Whether it ends before the time is up; else it is killed with -9."""
        with tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "fedrt", *self.words],
                cwd=self.folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(self.cache)},
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            self.pids.add(child.pid)
            try:
                code = child.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                self.pids |= set(members(child.pid))
                child.kill()
                child.wait()
                self._wait_for_children(child.pid)
                return False
            self._wait_for_children(child.pid)
            if code:
                errors.seek(0)
                text = errors.read().decode(errors="replace")
                raise RuntimeError(f"fedrt {' '.join(self.words)}: exit {code}\n{text}")
            return True

    def _wait_for_children(self, session: int) -> None:
        until = time.monotonic() + WAIT_S
        while left := members(session):
            if time.monotonic() > until:
                raise RuntimeError(f"processes left behind: {left}")
            time.sleep(0.05)

    def shared_memory(self) -> list[str]:
        """Names in /dev/shm that have the number of one of the processes in them."""
        shm = Path("/dev/shm")
        names = [path.name for path in shm.iterdir()] if shm.is_dir() else []
        return [name for name in names if any(f"_{pid}_" in name for pid in self.pids)]


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def contents(folder: Path) -> dict[str, Any]:
    """Every file of a folder with what it holds, real time aside."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            said = path.name in SAID or path.suffix in PICTURES
            found[name] = None if said else list(_read(path))
    return found


def _read(path: Path) -> Iterator[Any]:
    import numpy as np
    from pyarrow import parquet

    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        for name in table.column_names:
            if name != "wall_s":
                values = table[name].to_numpy()
                yield name, values.tolist() if values.dtype == object else values.tobytes()
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in sorted(archive.files) if name != "wall_s"}
        if {"names", "values"} <= arrays.keys():
            names, values = json.loads(str(arrays.pop("names"))), arrays.pop("values")
            yield {n: v.tobytes() for n, v in zip(names, values, strict=True) if "wall" not in n}
        for name, array in arrays.items():
            plain = array.dtype.kind == "U" and not array.shape
            yield name, _timeless(json.loads(str(array))) if plain else array.tobytes()
    elif path.suffix == ".json":
        yield _timeless(json.loads(path.read_text()))
    else:
        yield path.read_bytes()


def _timeless(data: Any) -> Any:
    """The data without real time, the command and the state of the machine."""
    if isinstance(data, dict):
        named = {k: v for k, v in data.items() if "wall" not in k and k not in SAID_INSIDE}
        return {k: _timeless(v) for k, v in named.items()}
    return [_timeless(each) for each in data] if isinstance(data, list) else data


def differences(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """What differs between two folders."""
    lines = [f"only in the untouched one: {name}" for name in one.keys() - two.keys()]
    lines += [f"left over: {name}" for name in two.keys() - one.keys()]
    return lines + [f"{name} differs" for name in one.keys() & two.keys() if one[name] != two[name]]


def trial(
    command: Command, folder: Path, rng: random.Random, life_s: float
) -> tuple[int, list[str]]:
    """Kill a command and go on until it ends: the number of kills, and what is wrong then."""
    out, kills = folder / "out", 0
    session = Session([], folder)
    for _ in range(rng.randint(1, MOST_KILLS)):
        session.words = command.words(out)
        if session.run(rng.uniform(0.0, life_s)):
            return kills, session.shared_memory()
        kills += 1
    session.words = command.words(out)
    session.run(None)
    beside = [path.name for path in folder.iterdir() if path.name not in ("out", "GIVEN")]
    return kills, [f"left over: {name}" for name in (*beside, *session.shared_memory())]


def prepare(folder: Path) -> Path:
    """A folder to run in, with small original files to import."""
    import gzip

    import numpy as np

    given = folder / "GIVEN"
    given.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, count in (("train", 600), ("t10k", 100)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            shape = np.array(array.shape, ">u4").tobytes()
            head = bytes([0, 0, 8, array.ndim]) + shape
            data = gzip.compress(head + array.tobytes())
            (given / f"{part}-{name}-ubyte.gz").write_bytes(data)
    return folder


def campaign(
    names: list[str], kills: int, seed: int, folder: Path, say: Callable[..., None]
) -> bool:
    """Print a line for every command and a verdict; whether all came out the same."""
    good = True
    for name in names:
        command = COMMANDS[name]
        alone = prepare(folder / name / "alone")
        Session(command.words(alone / "out"), alone).run(None)
        # A second time, with everything in the machine's caches, as the trials have it.
        began = time.monotonic()
        timed = prepare(folder / name / "timed")
        Session(command.words(timed / "out"), timed).run(None)
        life_s = time.monotonic() - began
        wanted, done, trials = contents(alone / "out"), 0, 0
        bad = [f"untouched: {line}" for line in differences(wanted, contents(timed / "out"))]
        while done < kills and trials < 4 * kills:
            where = prepare(folder / name / str(trials))
            rng = random.Random(f"{seed}/{name}/{trials}")
            try:
                hits, problems = trial(command, where, rng, life_s)
                problems += differences(wanted, contents(where / "out"))
            except RuntimeError as error:
                hits, problems = 1, [str(error)]
            done, trials = done + hits, trials + 1
            bad += [f"trial {trials}: {line}" for line in problems]
        verdict = f"{len(bad)} things wrong" if bad else "all as if left alone"
        say(f"{name}: {trials} trials, {done} kills, {life_s:.1f} s untouched: {verdict}")
        for line in bad:
            say(f"  {line}")
        good = good and not bad
    return good


def main() -> int:
    """Run the campaign of the command line; 1 if any trial differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(COMMANDS), metavar="A,B,...")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedrt-kill-") as folder:

        def say(line: str) -> None:
            print(line, flush=True)

        names = args.only.split(",")
        return 0 if campaign(names, args.kills, args.seed, Path(folder), say) else 1


if __name__ == "__main__":
    sys.exit(main())
