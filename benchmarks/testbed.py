"""Policies on real processes: measured seconds against predicted ones, round by round.

    python benchmarks/testbed.py [--rounds 40] [--policies ...] [--save FILE] [--tables DIR]

Needs root and Linux, as `fedrt testbed` does, and a machine that does nothing else. The pace of
local steps is measured first, and devices keep it in all runs but one. A device with it is
calibrated (`fedrt calibrate`), and a few rounds under the first policy tell what a round takes
beyond training, uploads and gossip (`overheads.aggregation_s`); the scenario with what these found
is then run under every policy in the testbed. `before` is the time that the simulator predicts of
the whole run before its first round, by the clock; `planned` is the sum of the predictions with
which its rounds began. The runs named `wrong` begin with cycles per sample that are wrong by a
factor: before the first round there is a large error, and after five rounds of learning there must
not be. In the run named `unpaced` devices get shares of the CPU's time instead of a pace, and are
as steady as the machine. From the tables `fedrt report DIR/*` makes the page of the policies' runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # as every party has; before torch is loaded

import numpy as np
from provenance import save, start_environment

import fedrt
from fedrt.records.columns.measured import by_the_clock_s
from fedrt.records.directory import read_run
from fedrt.runs.loop import simulate_rounds
from fedrt.testbed.leftovers import FOLDER, TRIAL
from fedrt.testbed.machine import usable_cores
from fedrt.testbed.pace import described_s, pace_of
from fedrt.testbed.prediction import known_s, read_columns
from fedrt.testbed.quota import quota_problem

SCENARIO = str(Path(__file__).parents[1] / "examples" / "testbed.toml")
POLICIES = ("ce-fedavg", "fedrt", "fedrt-plus", "fedrt-joint")
CORE_GHZ, SHARE = 6.0, 0.25
"""What a core stands for, and so the share of it that a device has at its 1.5 GHz."""
WRONG, WRONG_ROUNDS, WRONG_POLICY = (0.5, 2.0), 15, "fedrt"
SHARES = (1.0, 0.6, 0.3)
OVERHEAD_ROUNDS, FIRST_ROUNDS = 8, 2
"""Rounds that tell the overhead, and those of them that do not count: things are loaded there."""


def calibrated(folder: Path) -> dict[str, Any]:
    """What a device of the scenario needs on this machine."""
    split = fedrt.data_split(SCENARIO, out=folder / "data")
    text = fedrt.scenario_text(fedrt.load_scenario(SCENARIO)) + (split.normalise or "")
    (folder / "scenario.toml").write_text(text)
    devices = range(min(usable_cores(), fedrt.load_scenario(SCENARIO).fleet.num_devices))
    described = described_s(fedrt.load_scenario(SCENARIO), 0, 1e9 * CORE_GHZ)
    core_step_s = max(float(described.max()), pace_of(folder, devices, 0, allow_code=False))
    fedrt.enrol_init(folder / "ca")
    fedrt.enrol_sign(folder / "ca", role="device", name="device-0", out=folder / "device-0")
    found = fedrt.calibrate(
        "device-0",
        scenario=folder / "scenario.toml",
        data=folder / "data" / "device-0.npz",
        state=folder / "state",
        ca=folder / "device-0" / "ca.pem",
        cpu="duty" if quota_problem(FOLDER / TRIAL) else "cgroup",
        cpu_share=SHARE,
        core_step_s=core_step_s,
        shares=SHARES,
        seconds=2.0,
    )
    return {
        "core_step_s": core_step_s,
        "cycles_per_sample": found.cycles_per_sample,
        "header_factor": found.header_factor,
        "seconds_per_step": {str(share): times for share, times in found.seconds.items()},
    }


def settings_of(measures: dict[str, Any]) -> list[str]:
    """What was measured, as settings of the scenario."""
    names = {"cycles_per_sample": "fleet", "header_factor": "overheads"}
    names["aggregation_s"] = "overheads"
    return [f"{part}.{name}={measures[name]!r}" for name, part in names.items() if name in measures]


def overhead_s(settings: Sequence[str], policy: str, out: Path, core_step_s: float) -> float:
    """The median seconds that a round takes beyond training, uploads and gossip, by a short run."""
    run = in_testbed(settings, policy, out, core_step_s).run
    rounds = read_columns(run / "rounds.parquet", ("global_round", "clock_s"))
    names = ("global_round", "edge_round", "compute_s", "upload_s", "backhaul_s")
    edges = read_columns(run / "edges.parquet", names)
    beyond_s = rounds["clock_s"] - known_s(edges, rounds["global_round"])
    return float(np.median(beyond_s[FIRST_ROUNDS:]))


def in_testbed(
    settings: Sequence[str], policy: str, out: Path, core_step_s: float
) -> fedrt.TestbedResult:
    """A run in the testbed."""
    return fedrt.testbed(
        SCENARIO,
        policy=policy,
        settings=settings,
        out=out,
        core_ghz=CORE_GHZ,
        core_step_s=core_step_s,
    )


def predicted_s(settings: Sequence[str], policy: str) -> float:
    """The time of a whole run that the simulator predicts, by the clock."""
    scenario = fedrt.load_scenario(SCENARIO, list(settings))
    rounds = simulate_rounds(fedrt.make_world(scenario, 0), fedrt.make_policy(policy))
    return sum(
        by_the_clock_s([turn.outcome.planned for turn in done.edge_rounds]) for done in rounds
    )


def measured(settings: Sequence[str], policy: str, out: Path, core_step_s: float) -> dict[str, Any]:
    """What was predicted and measured in a run in the testbed."""
    done = in_testbed(settings, policy, out, core_step_s)
    columns = read_columns(done.run / "rounds.parquet", ("clock_s", "planned_clock_s"))
    summary = read_run(done.run).summary
    assert summary is not None
    for line in done.predictions.lines:
        print(f"  {line}", flush=True)
    return {
        "before_s": predicted_s(settings, policy),
        "accuracy": summary["final_accuracy"],
        "predictions": done.predictions.table(),
        "clock_s": [round(float(x), 4) for x in columns["clock_s"]],
        "planned_clock_s": [round(float(x), 4) for x in columns["planned_clock_s"]],
    }


def savings(runs: dict[str, Any]) -> None:
    """Add what each run saved against the first one: measured, and predicted before it."""
    first = next(iter(runs.values()))
    for run in runs.values():
        run["saved"] = 1 - sum(run["clock_s"]) / sum(first["clock_s"])
        run["predicted_saved"] = 1 - run["before_s"] / first["before_s"]


def keep_tables(folder: Path, policies: Sequence[str], out: Path) -> None:
    """Copy the tables of the policies' runs, without what only going on with them needs."""
    for policy in policies:
        unneeded = shutil.ignore_patterns("checkpoints", "records", ".lock")
        shutil.copytree(folder / policy / "run", out / policy, ignore=unneeded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--save", type=Path, help="where to write the numbers, as JSON")
    parser.add_argument("--keep", type=Path, help="a new folder for the runs; default: nowhere")
    parser.add_argument("--tables", type=Path, help="a new folder for the tables of the policies")
    parser.add_argument(
        "--again", type=Path, help="numbers of an earlier measurement: only run the policies again"
    )
    args = parser.parse_args()
    if args.tables is not None and args.tables.exists():
        parser.error(f"--tables {args.tables}: exists already")
    policies = args.policies.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.keep is None else args.keep
        if args.again is None:
            found = all_runs(folder, policies, args.rounds)
        else:
            found = runs_again(json.loads(args.again.read_text()), folder, policies)
        savings(found["runs"])
        for policy, run in found["runs"].items():
            print(f"{policy}: saved {run['saved']:.1%}, predicted {run['predicted_saved']:.1%}")
        save(args.save, found)
        if args.tables is not None:
            keep_tables(folder, policies, args.tables)


def all_runs(folder: Path, policies: Sequence[str], rounds: int) -> dict[str, Any]:
    """What was calibrated, and the runs of all policies, of wrong cycles and without a pace."""
    (folder / "calibration").mkdir(parents=True)
    found: dict[str, Any] = {"environment": start_environment(), "rounds": rounds}
    found["calibration"] = measures = calibrated(folder / "calibration")
    print(f"calibrated: {measures['cycles_per_sample']:.4g} cycles per sample", flush=True)
    trial = [*settings_of(measures), f"rounds.global_rounds={OVERHEAD_ROUNDS}"]
    pace = measures["core_step_s"]
    measures["aggregation_s"] = overhead_s(trial, policies[0], folder / "overhead", pace)
    print(f"overhead of a round: {measures['aggregation_s']:.3f} s", flush=True)
    found["runs"] = {}
    runs_again(found, folder, policies)
    found["wrong"], few = {}, f"rounds.global_rounds={WRONG_ROUNDS}"
    if rounds >= WRONG_ROUNDS:
        for factor in WRONG:
            wrong = measures | {"cycles_per_sample": factor * measures["cycles_per_sample"]}
            out = folder / f"wrong-{factor}"
            run = measured([*settings_of(wrong), few], WRONG_POLICY, out, pace)
            found["wrong"][str(factor)] = run
        given = [*settings_of(measures), few]
        found["unpaced"] = measured(given, WRONG_POLICY, folder / "unpaced", 0.0)
    return found


def runs_again(found: dict[str, Any], folder: Path, policies: Sequence[str]) -> dict[str, Any]:
    """Run policies with what was calibrated before, and take their numbers in."""
    measures = found["calibration"]
    given = [*settings_of(measures), f"rounds.global_rounds={found['rounds']}"]
    for policy in policies:
        run = measured(given, policy, folder / policy, measures["core_step_s"])
        found["runs"][policy] = run
    return found


if __name__ == "__main__":
    main()
