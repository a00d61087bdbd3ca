"""`fedrt testbed`: a run on real processes in network namespaces of this machine."""

from __future__ import annotations

import argparse

from fedrt.cli.data import add_data_dir
from fedrt.cli.parser import Commands, Parser, add_command, add_settings


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "run a scenario on real processes of this machine, with its network and CPUs emulated"
    parser = add_command(commands, "testbed", run, text)
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a shipped scenario or a TOML file"
    )
    parser.add_argument("--policy", default="fedrt", metavar="NAME", help="default: fedrt")
    parser.add_argument("--seed", default="0", metavar="N", help="default: 0")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="a new folder, or one where it was stopped; default: the next in runs/",
    )
    parser.add_argument(
        "--core-ghz",
        metavar="X",
        help="the frequency that a whole core of this machine stands for; default: such that all"
        " devices at full speed take four fifths of the machine",
    )
    parser.add_argument(
        "--cpu", metavar="NAME", help="cgroup or duty; default: cgroup, or duty where it has none"
    )
    parser.add_argument(
        "--core-step-s",
        metavar="S",
        help="seconds of a local step on a whole core, which devices keep whatever its speed is;"
        " default: as the scenario says, or what this machine needs if that is longer; 0: shares"
        " of the CPU are those of its time",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave it standing after the run, to be looked at"
    )
    parser.add_argument(
        "--clean", action="store_true", help="only remove testbeds that were kept or killed"
    )
    add_settings(parser)
    add_data_dir(parser)


def run(args: argparse.Namespace) -> None:
    """Run a scenario in a testbed and say how good the predictions were."""
    import fedrt

    if args.clean:
        removed = fedrt.testbed_clean()
        print("removed: " + ", ".join(removed) if removed else "there is nothing to remove")
        return
    found = fedrt.testbed(
        args.scenario,
        policy=args.policy,
        seed=args.seed,
        settings=args.settings,
        out=args.out,
        core_ghz=args.core_ghz,
        cpu=args.cpu,
        core_step_s=args.core_step_s,
        keep=args.keep,
        allow_code=args.allow_code,
        data_dir=args.data_dir,
        tell=lambda line: print(line, flush=True),
    )
    for line in found.predictions.lines:
        print(line)
    print(f"saved in {found.path}; look at it: fedrt report {found.run}")
    if args.keep:
        print("to remove the testbed: fedrt testbed --clean")
