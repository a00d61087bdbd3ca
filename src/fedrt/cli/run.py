"""`fedrt run`: train a real model over the simulated fleet, in simulated time, under one policy."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.checks import Real, Whole
from fedrt.cli.parser import Commands, Parser, add_command, add_settings, read_seeds, typed_command
from fedrt.errors import InputError

if TYPE_CHECKING:
    from fedrt.runs.training import RunOptions


def add(commands: Commands[Parser]) -> None:
    """Put the command on the command line."""
    text = "train a model over the simulated fleet under one policy"
    parser = add_command(commands, "run", run, text)
    parser.add_argument(
        "scenario",
        nargs="?",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    parser.add_argument("--policy", metavar="NAME", help="name or import path; default: fedrt")
    parser.add_argument("--seed", metavar="N", help="default: 0")
    parser.add_argument(
        "--out", metavar="DIR", help="default: runs/SCENARIO-POLICY-SEED; must not exist yet"
    )
    parser.add_argument("--resume", metavar="DIR", help="go on with a run that was stopped")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON only")
    add_training(parser)
    parser.add_argument(
        "--checkpoint-every", default="1", metavar="N", help="global rounds; default: 1"
    )
    parser.add_argument(
        "--keep-checkpoints", default="2", metavar="N", help="how many to keep; default: 2"
    )
    parser.add_argument("--tensorboard", action="store_true", help="log for TensorBoard too")
    add_settings(parser)


def add_training(parser: Parser) -> None:
    """The options of every command that trains."""
    parser.add_argument("--engine", default="sequential", metavar="E", help="default: sequential")
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, ...; default: a GPU if there"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where data sets are; or FEDRT_DATA")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        dest="targets",
        metavar="ACC",
        help="tell when this accuracy (0 to 1) was reached; may be repeated",
    )


def read_options(args: argparse.Namespace) -> RunOptions:
    """The options of a run, checked."""
    from fedrt.runs.training import RunOptions

    problems: list[str] = []
    share = Real(least=0, most=1)
    targets = [share.read(_number(text), "--target", problems) for text in args.targets]
    every = _number(getattr(args, "checkpoint_every", 1))
    keep = _number(getattr(args, "keep_checkpoints", 2))
    every = Whole(1, 1_000_000).read(every, "--checkpoint-every", problems)
    keep = Whole(1, 1_000_000).read(keep, "--keep-checkpoints", problems)
    if problems:
        raise InputError(problems)
    return RunOptions(
        engine=args.engine,
        device=args.device,
        data_dir=str(Path(args.data_dir).resolve()) if args.data_dir else None,
        checkpoint_every=every or 1,
        keep_checkpoints=keep or 1,
        targets=tuple(value for value in targets if value is not None),
        tensorboard=getattr(args, "tensorboard", False),
    )


def _number(text: object) -> object:
    """A number if the text is one, else the text, for the rule to complain about."""
    if not isinstance(text, str):
        return text
    try:
        return float(text)
    except ValueError:
        return text


def run(args: argparse.Namespace) -> None:
    """Start a run or go on with one; print its outcome."""
    path = _resumed_path(args) if args.resume else _started_path(args)
    from fedrt.report.learning import print_run
    from fedrt.report.progress import training_progress
    from fedrt.runs.directory import read_run
    from fedrt.runs.training import carry_on

    def note(line: str) -> None:
        print(line, file=sys.stderr)

    rounds = read_run(path).scenario.rounds.global_rounds
    try:
        with training_progress(rounds, quiet=args.json) as progress:
            summary = carry_on(path, progress, note)
    except KeyboardInterrupt:
        note(f"stopped; go on with: fedrt run --resume {path}")
        raise
    if args.json:
        print(json.dumps(summary, allow_nan=False))
    else:
        print_run(summary)
        print(f"saved in {path}")


def _resumed_path(args: argparse.Namespace) -> Path:
    given = [name for name in ("scenario", "policy", "seed", "out") if getattr(args, name)]
    if given or args.settings:
        names = ", ".join([*given, *(["--set"] if args.settings else [])])
        raise InputError(f"--resume: takes everything from its directory, not {names}")
    return Path(args.resume)


def _started_path(args: argparse.Namespace) -> Path:
    """A new run directory, complete before anything heavy is loaded."""
    from fedrt.files import refuse_existing
    from fedrt.runs.training import start_run
    from fedrt.scenario import load_scenario

    scenario = load_scenario(args.scenario or "quickstart", args.settings)
    policy = args.policy or "fedrt"
    (seed,) = read_seeds(args.seed or "0") if "," not in (args.seed or "0") else (None,)
    if seed is None:
        raise InputError(f"--seed {args.seed}: must be one whole number >= 0")
    stem = f"{scenario.name}-{policy}-{seed}".replace("/", "-").replace(":", ".")
    path = Path(args.out) if args.out else Path("runs") / stem
    try:
        refuse_existing(path)
    except ValueError:
        raise InputError(f"--out {args.out!r}: is not a usable name") from None
    start_run(path, scenario, policy, seed, typed_command(), read_options(args))
    return path
