"""FedRT beside pfl and Flower's simulation: the same round of 72 LeNet-5 devices in each.

    python benchmarks/peers/run.py --setup          once: makes .venv-pfl and .venv-flower
    python benchmarks/peers/run.py [--repeats 7] [--save benchmarks/results/peers.json]

`fedrt` trains as it measures to be fastest in each turn, before the clock runs; `fedrt-plain` is
the sequential engine in as many processes. With ATEN_CPU_CAPABILITY=avx2, ONEDNN_MAX_CPU_ISA=AVX2,
MKL_ENABLE_INSTRUCTIONS=AVX2, NUMBA_CPU_NAME=znver3 a processor with AVX-512 stands for one without.

First every side must give our averaged model in float64. Then the sides take turns, each turn in
fresh processes: a warm-up round, then `--rounds` in float32, of which the median counts; every
round's model is checked. A side that fails in a turn is left out of it and counted; the results so
far are saved after every turn. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from control import summary  # noqa: E402
from provenance import save, start_environment  # noqa: E402

PEERS = {"pfl": ROOT / ".venv-pfl", "flower": ROOT / ".venv-flower"}
SIDES = {
    "fedrt": [],
    "fedrt-plain": ["--engine", "stacked:form=plain:chunk=1"],
    "fedrt-sequential": ["--engine", "sequential"],
    "pfl": [],
    "pfl-2": ["--processes", "2"],
    "pfl-2-channels-last": ["--processes", "2", "--channels-last"],
    "flower": [],
    "flower-channels-last": ["--channels-last"],
}
DEFAULT = "fedrt,fedrt-plain,pfl-2-channels-last,flower-channels-last"
LIMITS = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "NUMBA_CPU_NAME",
)
"""Variables by which a processor stands for one with fewer instructions, on all sides alike."""


def take_priority(level: int) -> None:
    """Let the scheduler put this process and its children first, as `nice` does.

    Where it groups processes by session (autogroup), niceness counts within a session only, and the
    group has one of its own.
    """
    os.setpriority(os.PRIO_PROCESS, 0, level)
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(level))


def set_up() -> None:
    """Make the peers' environments from their lock files."""
    for name, folder in PEERS.items():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        lock = HERE / f"requirements-{name}.lock"
        # torch by itself, exactly: else its CUDA packages may come along.
        pins = [line for line in lock.read_text().splitlines() if line.startswith("torch==")]
        subprocess.run([*pip, *pins], check=True)
        subprocess.run([*pip, "-r", str(lock)], check=True)


class SideError(Exception):
    """A side ended without a result; says how."""


def run_side(side: str, job: Path, more: list[str]) -> dict[str, Any]:
    """Run one side in processes of its own; what it reports."""
    name = side.split("-")[0]
    python = str(PEERS[name] / "bin" / "python") if name in PEERS else sys.executable
    script = str(HERE / f"run_{name}.py")
    command = [python, script, "--job", str(job), *SIDES[side], *more]
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise SideError(f"{side} failed ({done.returncode}):\n{tail}")
    return json.loads(lines[-1])


def check(sides: list[str], job: Path) -> dict[str, float]:
    """One round of every side in float64: the worst difference from our average."""
    found = {}
    for side in sides:
        report = run_side(side, job, ["--dtype", "float64", "--warmup", "1", "--rounds", "0"])
        found[side] = report["worst_difference"]
        print(f"{side}: averaged model {found[side]:.1e} off in float64", flush=True)
    return found


def take_turns(
    sides: list[str], job: Path, repeats: int, rounds: int, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Time the sides one after the other, again and again, each turn from another one on.

    What is there after a turn goes to `keep`. A side that fails in a turn is left out of it and
    counted.
    """
    reports: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    failed = dict.fromkeys(sides, 0)
    rows: dict[str, Any] = {}
    for turn in range(repeats):
        first = turn % len(sides)
        for side in sides[first:] + sides[:first]:
            try:
                report = run_side(side, job, ["--rounds", str(rounds)])
            except SideError as error:
                failed[side] += 1
                print(f"turn {turn + 1}: {error}", flush=True)
                continue
            reports[side].append(report)
            print(f"turn {turn + 1}: {side} {report['seconds_per_round']:.3f} s", flush=True)
        rows = summarise(reports, failed)
        keep(rows)
    return rows


def summarise(
    reports: dict[str, list[dict[str, Any]]], failed: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """A row for each side: of its times, memory and turns that failed; the first is what counts."""
    rows: dict[str, dict[str, Any]] = {}
    for side, of_side in reports.items():
        rows[side] = {"failed_turns": failed[side]}
        if of_side:
            rows[side] |= {
                **summary([report["seconds_per_round"] for report in of_side]),
                "worst_difference_float32": max(report["worst_difference"] for report in of_side),
                "peak_rss_mb": max(report["memory_mb"]["peak_rss"] for report in of_side),
                "pss_mb": max(report["memory_mb"]["pss"] for report in of_side),
                "threads_per_process": round(of_side[0]["threads"]),
                "what": of_side[0]["side"],
                "seconds": [report["seconds_per_round"] for report in of_side],
                "chosen": [report["chosen"] for report in of_side if report.get("chosen")],
                "versions": of_side[0]["versions"],
            }
    ours = next(iter(rows))
    for row in rows.values():
        if "median_s" in row and "median_s" in rows[ours]:
            row[f"times_{ours}"] = row["median_s"] / rows[ours]["median_s"]
    return rows


def show(rows: dict[str, Any]) -> None:
    """The table."""
    ours = next(iter(rows))
    print(f"{'side':21} median s (quartiles)     / {ours:9} peak RSS MB  PSS MB  off in float32")
    for side, row in rows.items():
        failed = f"  failed in {row['failed_turns']} turns" if row["failed_turns"] else ""
        if "median_s" not in row:
            print(f"{side:21} {failed.strip()}")
            continue
        spread = f"{row['median_s']:.3f} ({row['q1_s']:.3f} to {row['q3_s']:.3f})"
        times = row.get(f"times_{ours}", float("nan"))
        print(
            f"{side:21} {spread:24} {times:11.2f} {row['peak_rss_mb']:11.0f}"
            f" {row['pss_mb']:7.0f} {row['worst_difference_float32']:15.1e}{failed}"
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--setup", action="store_true", help="make the peers' environments, stop")
    parser.add_argument("--sides", default=DEFAULT, help=f"of {', '.join(SIDES)}")
    parser.add_argument("--engine", default="stacked", help="of the side fedrt, with options")
    parser.add_argument("--dataset", choices=("random", "fmnist"), default="random")
    parser.add_argument("--devices", type=int, default=72)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7, help="turns of every side")
    parser.add_argument("--rounds", type=int, default=2, help="timed rounds in each turn")
    parser.add_argument("--nice", type=int, help="of all sides, -20 to 19; for a shared machine")
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.setup:
        set_up()
        return
    sides = args.sides.split(",")
    if unknown := sorted(set(sides) - set(SIDES)):
        raise SystemExit(f"--sides: no {', '.join(unknown)}; there are {', '.join(SIDES)}")
    missing = [n for n in PEERS if any(s.startswith(n) for s in sides) and not PEERS[n].exists()]
    if missing:
        raise SystemExit(f"no environment for {', '.join(missing)} yet: run with --setup first")
    SIDES["fedrt"] = ["--engine", args.engine]
    if args.nice is not None:
        take_priority(args.nice)
    results: dict[str, Any] = {
        "command": "python benchmarks/peers/run.py " + " ".join(sys.argv[1:]),
        "environment": start_environment(),
        "instructions": {name: os.environ[name] for name in LIMITS if name in os.environ},
        "config": {key: value for key, value in vars(args).items() if key != "save"},
    }
    for title, value in results.items():
        print(f"{title}: {value}")
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        make = [sys.executable, str(HERE / "make_job.py"), str(job), "--dataset", args.dataset]
        make += ["--devices", str(args.devices), "--steps", str(args.steps)]
        subprocess.run(make, check=True)
        try:
            results["worst_difference_float64"] = check(sides, job)
        except SideError as error:
            raise SystemExit(str(error)) from error

        def keep(rows: dict[str, Any]) -> None:
            save(args.save, results | {"sides": rows})

        show(take_turns(sides, job, args.repeats, args.rounds, keep))


if __name__ == "__main__":
    main()
