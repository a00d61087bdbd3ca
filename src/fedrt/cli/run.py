"""`fedrt run`: train a model over the simulated fleet under one policy."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from fedrt.cli.parser import Commands, Parser, add_command, add_out, add_settings


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "train a model over the simulated fleet under one policy"
    parser = add_command(commands, "run", run, text)
    parser.add_argument(
        "scenario",
        nargs="?",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    parser.add_argument("--policy", metavar="NAME", help="name or import path; default: fedrt")
    parser.add_argument("--seed", metavar="N", help="default: 0")
    add_out(parser)
    parser.add_argument("--resume", metavar="DIR", help="go on with a run that was stopped")
    parser.add_argument(
        "--branch",
        metavar="DIR",
        help="start a run of its own from the newest state of a stopped one, with the changes that"
        " --set and other options make",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON only")
    add_training(parser)
    add_checkpoints(parser)
    parser.add_argument("--tensorboard", action="store_true", help="log for TensorBoard too")
    add_settings(parser)


def add_training(parser: Parser) -> None:
    """Add the options of every command that trains."""
    parser.add_argument(
        "--engine", metavar="E", help="stacked, sequential or ray; default: stacked"
    )
    parser.add_argument(
        "--address",
        metavar="HOST",
        help="of the Ray cluster to train on, HOST:PORT, or local; default: local",
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda, ...; default: a GPU if there")
    parser.add_argument("--chunk", metavar="N", help="devices trained at a time; default: measured")
    parser.add_argument("--workers", metavar="N", help="processes; default: as it pays, on a CPU")
    parser.add_argument("--data-dir", metavar="DIR", help="where data sets are; or FEDRT_DATA")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        dest="targets",
        metavar="X",
        help="tell when this accuracy (0 to 1), or other measure of the task, was reached; may be"
        " repeated",
    )


def add_checkpoints(parser: Parser) -> None:
    """Add the option of how often to save a checkpoint."""
    parser.add_argument("--checkpoint-every", metavar="N", help="global rounds; default: 1")
    parser.add_argument("--keep-checkpoints", metavar="N", help="how many to keep; default: 2")
    parser.add_argument(
        "--stop-at",
        metavar="NAME=X",
        help="end a run once a measure has reached a value, as accuracy=0.9",
    )
    parser.add_argument(
        "--patience",
        metavar="N",
        help="end a run if that measure, or the task's own, has not improved in N evaluations",
    )
    parser.add_argument(
        "--log",
        action="append",
        metavar="NAME",
        help="tell tensorboard, mlflow or wandb of every round; may be repeated",
    )


def training_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of training as they were typed; None where nothing was."""
    names = ("engine", "address", "device", "chunk", "workers", "data_dir", "targets")
    others = (
        "patience",
        "log",
        "checkpoint_every",
        "keep_checkpoints",
        "tensorboard",
        "keep_models",
        "stop_at",
    )
    return {name: getattr(args, name, None) or None for name in (*names, *others)}


def run(args: argparse.Namespace) -> None:
    """Train, resume or branch a run; print its outcome or JSON."""
    import fedrt

    began = time.monotonic()
    result = fedrt.run(
        args.scenario,
        policy=args.policy,
        seed=args.seed,
        settings=args.settings,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        branch=args.branch,
        progress=not args.json,
        **training_options(args),
    )
    if args.json:
        print(json.dumps(result.outcome, allow_nan=False))
        return
    from fedrt.report.learning import print_run

    print_run(result.outcome, time.monotonic() - began, resumed=args.resume is not None)
    print(f"saved in {result.folder}")
