"""Kills a training run with -9 at random instants, resumes it, and compares with one left alone.

    python tools/kill_campaign.py --trials 50 --seed 0

Each trial starts the same small run in a process of its own, kills it, and goes on with `fedrt run
--resume`, perhaps killing it again, until it ends. Half of the delays are drawn uniformly over the
life of an untouched run, start-up and saving included; the others over its rounds, counted from the
next checkpoint. The four tables and the summary must then be those of the untouched run to the last
bit, real time aside.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TABLES = ("rounds", "edges", "links", "devices")
ROUNDS = 40
SETTINGS = (
    "fleet.num_devices=8",
    "fleet.num_edges=3",
    f"rounds.global_rounds={ROUNDS}",
    "learning.evaluate_every=3",
    "learning.participation=0.75",
)
MOST_KILLS = 3
"""In one trial."""


def differences(one: Path, two: Path) -> list[str]:
    """What differs between two finished run directories, real time aside; NaN equals NaN."""
    import numpy as np
    from pyarrow import parquet

    found = []
    for name in TABLES:
        first, second = (parquet.read_table(run / f"{name}.parquet") for run in (one, two))
        if first.schema != second.schema or len(first) != len(second):
            found.append(f"{name}: {first.shape} and {second.shape}")
            continue
        for column in first.column_names:
            a, b = first[column].to_numpy(), second[column].to_numpy()
            # Bytes tell -0.0 from 0.0 and one NaN from another; text has no such bytes.
            same = a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
            if column != "wall_s" and not same:
                rows = np.flatnonzero(a != b)
                found.append(f"{name}.{column}: rows {rows[:5].tolist()}")
    first, second = (json.loads((run / "summary.json").read_text()) for run in (one, two))
    for key in first.keys() | second.keys():
        if key != "wall_s" and first.get(key) != second.get(key):
            found.append(f"summary: {key}: {first.get(key)} and {second.get(key)}")
    return found


@dataclass(frozen=True)
class Killed:
    """A child that was killed: after how long, and how far it had come."""

    after_s: float
    rounds: int | None
    """Rounds in its newest checkpoint; None before there was a directory."""

    def __str__(self) -> str:
        reached = "no directory yet" if self.rounds is None else f"checkpoint {self.rounds}"
        return f"{self.after_s:.2f} s ({reached})"


class Run:
    """A run in a process of its own, started and gone on with as often as it is killed."""

    def __init__(self, out: Path, options: Sequence[str] = (), address: str = "") -> None:
        self.out, self.options = out, options
        self.address = ("--address", address) if address else ()
        self.child: subprocess.Popen[bytes] | None = None
        self.errors: IO[bytes] | None = None

    def command(self) -> list[str]:
        """Starts the run, or goes on with it once there is something to go on with."""
        fedrt = [sys.executable, "-m", "fedrt", "run", "--json", *self.address]
        if self.out.exists():
            return [*fedrt, "--resume", str(self.out)]
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        where = ["--out", str(self.out), "--device", "cpu"]
        return [*fedrt, "quickstart", *where, *self.options, *settings]

    def start(self) -> None:
        """Start a process at it."""
        self.before, self.began = rounds_done(self.out), time.monotonic()
        self.errors, self.words = tempfile.TemporaryFile(), self.command()  # noqa: SIM115
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.child = subprocess.Popen(
            self.words, env=environment, stdout=subprocess.DEVNULL, stderr=self.errors
        )

    def ends_within(self, limit_s: float | None, *, in_rounds: bool = False) -> bool:
        """Whether it ends before the time is up, counted from its next checkpoint on if asked."""
        assert self.child is not None
        assert self.errors is not None
        while in_rounds and self.child.poll() is None:
            if (rounds_done(self.out) or 0) > (self.before or 0):
                break
            time.sleep(0.005)
        try:
            code = self.child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return False
        if code:
            self.errors.seek(0)
            text = self.errors.read().decode(errors="replace")
            raise RuntimeError(f"{' '.join(self.words)}: exit {code}\n{text}")
        return True

    def age_s(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.began

    def kill(self) -> None:
        """With -9."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
        if self.errors is not None:
            self.errors.close()


def run_for(run: Run, limit_s: float | None, *, in_rounds: bool = False) -> Killed | None:
    """Run until it ends or the time is up; None if it ended."""
    run.start()
    try:
        if run.ends_within(limit_s, in_rounds=in_rounds):
            return None
        run.kill()
        return Killed(run.age_s(), rounds_done(run.out))
    finally:
        run.kill()


def rounds_done(out: Path) -> int | None:
    """Rounds in the newest checkpoint."""
    if not out.exists():
        return None
    found = [int(p.stem) for p in (out / "checkpoints").glob("*.npz") if p.stem.isdigit()]
    return max(found, default=0)


@dataclass(frozen=True)
class Span:
    """How long an untouched run takes, and how much of that after its first checkpoint."""

    life_s: float
    rounds_s: float


def measure(run: Run) -> Span:
    """Leave a run alone and time it."""
    run_for(run, None)
    life_s = run.age_s()
    rounds_s = float(json.loads((run.out / "summary.json").read_text())["wall_s"])
    return Span(life_s, rounds_s * (ROUNDS - 1) / ROUNDS)


def trial(out: Path, rng: random.Random, span: Span) -> list[Killed]:
    """Kill a run and go on until it ends; the kills. A delay may outlast the run."""
    run, kills = Run(out), list[Killed]()
    for _ in range(rng.randint(1, MOST_KILLS)):
        in_rounds = rng.random() < 0.5
        delay_s = rng.uniform(0.0, span.rounds_s if in_rounds else span.life_s)
        killed = run_for(run, delay_s, in_rounds=in_rounds)
        if killed is None:
            return kills
        kills.append(killed)
    run_for(run, None)
    return kills


def campaign(trials: int, seed: int, folder: Path, jobs: int = 1) -> bool:
    """Print a line for every trial and a verdict; whether all came out the same."""
    reference, again = folder / "reference", folder / "again"
    run_for(Run(reference), None)
    span = measure(Run(again))
    if found := differences(reference, again):
        print("two untouched runs differ already", *found, sep="\n  ")
        return False
    print(
        f"an untouched run of {ROUNDS} rounds takes {span.life_s:.1f} s, {span.rounds_s:.1f} s of"
        " them after its first checkpoint; two of them are the same"
    )

    def judge(number: int) -> tuple[list[Killed], list[str]]:
        out = folder / f"trial-{number}"
        try:
            hits = trial(out, random.Random(f"{seed}/{number}"), span)
            return hits, differences(reference, out)
        except RuntimeError as error:
            return [], [str(error)]

    bad = kills = 0
    with ThreadPoolExecutor(jobs) as pool:
        for number, (hits, problems) in enumerate(pool.map(judge, range(trials)), 1):
            kills, bad = kills + len(hits), bad + bool(problems)
            where = ", ".join(map(str, hits)) or "its end"
            verdict = "DIFFERS" if problems else "same"
            print(f"trial {number}: killed after {where}: {verdict}", *problems, sep="\n  ")
            sys.stdout.flush()
    print(f"{trials} trials, {kills} kills, {bad} different from the untouched run")
    return not bad


def main() -> int:
    """Run the campaign of the command line; 1 if any trial differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedrt-kill-") as folder:
        return 0 if campaign(args.trials, args.seed, Path(folder), args.jobs) else 1


class _AsWritten(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


if __name__ == "__main__":
    sys.exit(main())
