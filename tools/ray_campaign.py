"""Kills workers, nodes and the driver of a run on a Ray cluster at random instants.

    python tools/ray_campaign.py --trials 50 --seed 0

One cluster of a head and two nodes serves all trials. Each trial starts the same small run on it
and kills, one to three times, with -9: a process that trains, a whole node, for which a new one
comes after a while, or the driver, which then goes on with `fedrt run --resume`. Every run must end
with the history of an untouched one, to the last bit, real time aside.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kill_campaign import MOST_KILLS, Run, Span, differences, measure
from ray_nodes import Nodes

NODES = 2
KINDS = ("worker", "node", "driver")
MOST_ATTEMPTS = 5
LONGEST_ABSENCE_S = 4.0
"""Of a node that was killed, before another comes."""


@dataclass(frozen=True)
class Hit:
    """What was killed, and when in the life of the driver."""

    kind: str
    after_s: float

    def __str__(self) -> str:
        return f"{self.kind} after {self.after_s:.2f} s"


class Trial:
    """One run under fire."""

    def __init__(self, out: Path, nodes: Nodes, rng: random.Random) -> None:
        self.run = Run(out, ("--engine", "ray", "--workers", str(NODES)), nodes.address)
        self.nodes, self.rng = nodes, rng
        self.helpers: list[threading.Thread] = []

    def go(self, span: Span) -> list[Hit]:
        """Kill and go on until it ends; what was killed. A delay may outlast the run."""
        hits: list[Hit] = []
        self.run.start()
        try:
            for _ in range(self.rng.randint(1, MOST_KILLS)):
                in_rounds = self.rng.random() < 0.7
                limit_s = span.rounds_s if in_rounds else span.life_s
                if self.run.ends_within(self.rng.uniform(0.0, limit_s), in_rounds=in_rounds):
                    return hits
                kind = self.rng.choice(KINDS)
                if self.kill(kind):
                    hits.append(Hit(kind, self.run.age_s()))
                if kind == "driver":
                    self.run.start()
            self.run.ends_within(None)
            return hits
        finally:
            self.run.kill()
            for helper in self.helpers:
                helper.join()
            self.nodes.restore(NODES)

    def kill(self, kind: str) -> bool:
        """Whether there was one to kill."""
        if kind == "driver":
            self.run.kill()
            return True
        if kind == "worker":
            workers = self.nodes.workers()
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(self.rng.choice(workers), signal.SIGKILL)
            return bool(workers)
        if not self.nodes.nodes:
            return False
        self.nodes.kill(self.rng.choice(self.nodes.nodes))
        absence_s = self.rng.uniform(0.0, LONGEST_ABSENCE_S)

        def come_back() -> None:
            time.sleep(absence_s)
            self.nodes.add()

        self.helpers.append(threading.Thread(target=come_back))
        self.helpers[-1].start()
        return True


def under_fire(
    folder: Path, nodes: Nodes, key: str, span: Span, reference: Path
) -> tuple[list[Hit], list[str]]:
    """What was killed in a trial, and how it then differs; again if the run was over too soon."""
    rng = random.Random(key)
    for attempt in range(MOST_ATTEMPTS):
        out = folder / f"{key.replace('/', '-')}-{attempt}"
        try:
            hits = Trial(out, nodes, rng).go(span)
            problems = differences(reference, out)
        except RuntimeError as error:
            return [], [str(error)]
        if hits or problems:
            break
    return hits, problems


def ray_campaign(trials: int, seed: int, folder: Path) -> bool:
    """Print a line for every trial and a verdict; whether all came out the same."""
    nodes = Nodes(NODES)
    try:
        reference = Run(folder / "reference", ("--engine", "ray", "--workers", "1"), "local")
        span = measure(reference)
        again = Run(folder / "again", ("--engine", "ray", "--workers", str(NODES)), nodes.address)
        span = measure(again)
        if found := differences(reference.out, again.out):
            print("a run of its own and one on the cluster differ", *found, sep="\n  ")
            return False
        print(
            f"an untouched run takes {span.life_s:.1f} s, {span.rounds_s:.1f} s of them after its"
            " first checkpoint; with one worker on a cluster of its own it is the same"
        )
        counts, bad = dict.fromkeys(KINDS, 0), 0
        for number in range(1, trials + 1):
            hits, problems = under_fire(folder, nodes, f"ray/{seed}/{number}", span, reference.out)
            for hit in hits:
                counts[hit.kind] += 1
            bad += bool(problems)
            where = ", ".join(map(str, hits)) or "nobody"
            verdict = "DIFFERS" if problems else "same"
            print(f"trial {number}: killed {where}: {verdict}", *problems, sep="\n  ", flush=True)
        killed = ", ".join(f"{count} {kind}s" for kind, count in counts.items())
        print(f"{trials} trials, {killed} killed, {bad} different from the untouched run")
        return not bad
    finally:
        nodes.close()


def main() -> int:
    """Run the campaign of the command line; 1 if any trial differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedrt-kill-") as folder:
        return 0 if ray_campaign(args.trials, args.seed, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
