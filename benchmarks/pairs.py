"""Whether a change made anything slower: two checkouts timed in turns, round by round.

    python benchmarks/pairs.py OLD NEW [--jobs control,training] [--pairs 11] [--save FILE]

OLD and NEW are folders with a checkout each. One process for each prepares the work with its own
source and its own benchmarks; then they work by turns, so that whatever else the machine does meets
both alike. A row has the median seconds of both and the median over the pairs of NEW / OLD.
`training-cuda` is one edge round on a GPU, all steps compiled.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Job = Callable[[], float]
JOBS = ("control", "control-large", "training", "training-cuda")


def decisions() -> Job:
    """A decision of fedrt-plus for 72 devices on 8 servers in each kind of edge round."""
    control = importlib.import_module("control")
    return lambda: sum(row["median_s"] for row in control.decisions(8, 9, 12).values())


def large_allocation() -> Job:
    """The allocation of least time for 100,000 devices on 500 servers."""
    control = importlib.import_module("control")
    seen, allowance_j = control.fleet(500, 200, 0)

    def run() -> float:
        start = time.perf_counter()
        control.allocate(seen, allowance_j)
        return time.perf_counter() - start

    return run


def training(*, cuda: bool) -> Job:
    """One edge round of the stacked engine."""
    training = importlib.import_module("training")
    import torch

    model, devices, steps = ("resnet20", 72, 20) if cuda else ("lenet5", 16, 5)
    if not cuda:
        torch.set_num_threads(1)
    count = 10_000
    task = training.Task(
        dataset=training.random_dataset(training.SHAPES[model], count, training.SEED),
        parts=training.split_evenly(count, devices, training.SEED),
        model=model,
        steps=steps,
        learning_rate=training.RATES[model],
        dtype="bfloat16" if cuda else "float32",
        augment=cuda,
        device="cuda" if cuda else "cpu",
    )
    engine, flat = task.engine("stacked" if cuda else "stacked:chunk=8:form=rows:workers=1")
    first, order = flat.state()[None], task.order()
    return lambda: float(training.seconds_of_round(engine, first, order))


def serve(job: str) -> None:
    """In a process of its own: work once for every line that comes in, and say how long it took."""
    run = {
        "control": decisions,
        "control-large": large_allocation,
        "training": lambda: training(cuda=False),
        "training-cuda": lambda: training(cuda=True),
    }[job]()
    for _ in range(2):
        run()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(run(), flush=True)


class Side:
    """The process of one checkout."""

    def __init__(self, checkout: Path, job: str) -> None:
        parts = ("src", "benchmarks", "benchmarks/peers", "tests")
        paths = [str(checkout / part) for part in parts]
        given = os.environ.get("PYTHONPATH")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [given])])}
        command = [sys.executable, "-P", __file__, "--serve", job]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
        self.out: IO[str] = self.process.stdout

    def line(self) -> str:
        """What it says next."""
        found = self.out.readline().strip()
        if not found:
            raise SystemExit("a side ended before its time")
        return str(found)

    def turn(self) -> float:
        """Let it work once; the seconds it took."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(60)


def median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def compare(job: str, checkouts: list[Path], pairs: int) -> dict[str, Any]:
    """Both sides in turns; each pair begins with the other side."""
    sides = [Side(checkout, job) for checkout in checkouts]
    for side in sides:
        while side.line() != "ready":
            pass
    seconds: list[list[float]] = [[], []]
    for number in range(pairs):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            seconds[which].append(sides[which].turn())
    for side in sides:
        side.end()
    ratios = sorted(new / old for old, new in zip(*seconds, strict=True))
    return {
        "old_s": median(seconds[0]),
        "new_s": median(seconds[1]),
        "ratio": median(ratios),
        "ratios": ratios,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="two checkouts timed in turns")
    parser.add_argument("checkouts", nargs="*", type=Path)
    parser.add_argument("--jobs", default="control,control-large,training")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--serve", choices=JOBS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
        return
    if len(args.checkouts) != 2:
        parser.error("give two checkouts, OLD and NEW")
    found = {}
    for job in args.jobs.split(","):
        found[job] = compare(job, [path.resolve() for path in args.checkouts], args.pairs)
        row = found[job]
        spread = f"{row['ratios'][0]:.3f} to {row['ratios'][-1]:.3f}"
        both = f"{row['old_s']:.4g} s, {row['new_s']:.4g} s"
        print(f"{job}: {both}, ratio {row['ratio']:.3f} ({spread})", flush=True)
    if args.save is not None:
        from provenance import save

        save(args.save, {"command": " ".join(sys.argv), "jobs": found})


if __name__ == "__main__":
    main()
