"""How far policies stay above the hindsight bound in five settings.

    python benchmarks/bound.py --save benchmarks/results/bound.json
    python benchmarks/bound.py --joint --folder DIR --save benchmarks/results/bound_joint.json

`fedrt bound` with three seeds for each setting (docs/bound.md); minutes on one core. `--joint`:
with one seed, the paper's columns as they are, and `fedrt-joint` with the bound over codecs
(docs/joint.md); half an hour. DIR keeps what is done: the same command goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from beyond import ABLATION as SETTINGS
from provenance import save, start_environment

import fedrt
from fedrt import cli
from fedrt.errors import FedrtError
from fedrt.experiments.cells import TABLE
from fedrt.runs.loop import make_world


def bound(words: tuple[str, ...], seeds: str) -> dict[str, Any]:
    """What `fedrt bound --json` prints for a scenario and its changed settings."""
    said = io.StringIO()
    command = ["bound", words[0], "--seeds", seeds, "--policies", "fedrt,fedrt-plus", "--json"]
    with contextlib.redirect_stdout(said):
        code = cli.main([*command, *(f"--set={setting}" for setting in words[1:])])
    if code:
        raise FedrtError(f"fedrt {' '.join(command)}: exit code {code}")
    data: dict[str, Any] = json.loads(said.getvalue())
    return data


def joint_bound(preset: str, seeds: str, folder: Path) -> dict[str, Any]:
    """The bound over codecs of a preset, from its folder as far as it is there.

    With it goes what the bound was given where budgets cannot be kept: the joules over them, on
    average over the devices with a raised limit.
    """
    name = preset.replace("/", "-")
    if (folder / name).exists():
        result = fedrt.bound(resume=folder / name, progress=False)
    else:
        result = fedrt.bound(
            preset,
            policies="fedrt,fedrt-plus,fedrt-joint",
            seeds=seeds,
            out=folder / name,
            progress=False,
        )
    scenario, found = result.found
    given = []
    for each in found:
        budget_j = make_world(scenario, each.seed).fleet.energy_budget_j
        raised = each.bound.limit_j > budget_j
        over_j = (each.bound.limit_j - budget_j)[raised]
        given.append(
            {
                "devices": len(budget_j),
                "raised": int(raised.sum()),
                "budget_j": float(budget_j.mean()),
                "raised_by_j": float(over_j.mean()) if raised.any() else 0.0,
            }
        )
    return {**result.data, "energy_limits": given}


def main() -> int:
    """Bound every setting and save it; the exit code."""
    return cli.guarded(run)


def run() -> int:
    """Bound every setting and save it."""
    parser = argparse.ArgumentParser(description="the hindsight bound in five settings")
    parser.add_argument("--seeds", help="default: 0,1,2, with --joint 0")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--joint", action="store_true", help="with the bound over codecs")
    parser.add_argument("--folder", type=Path, help="with --joint: where studies are kept")
    args = parser.parse_args()
    if args.joint != (args.folder is not None):
        parser.error("--joint and --folder go together")
    data: dict[str, Any] = {"command": " ".join(sys.argv), "environment": start_environment()}
    data["settings"] = {}
    names = [column.scenario for column in TABLE] if args.joint else list(SETTINGS)
    for name in names:
        if args.joint:
            own = joint_bound(name, args.seeds or "0", args.folder)
        else:
            own = bound(SETTINGS[name], args.seeds or "0,1,2")
        data["settings"][name] = own
        *_, last = own["policies"].values()
        above = last["above_bound"]["per_seed"]
        print(f"{name}: {', '.join(f'{value:+.1%}' for value in above)}", flush=True)
        save(args.save, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
