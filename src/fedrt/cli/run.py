"""`fedrt run`: train a model over the simulated fleet under one policy."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import (
    Commands,
    Parser,
    add_command,
    add_out,
    add_settings,
    in_folder,
    read_seed,
    typed_command,
    with_options,
)
from fedrt.errors import InputError, printable
from fedrt.system.extras import need
from fedrt.validation import Maybe, Real, Text, Whole, problem, shown

if TYPE_CHECKING:
    from fedrt.records.options import RunOptions
    from fedrt.records.summary import Summary


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
        metavar="ACC",
        help="tell when this accuracy (0 to 1) was reached; may be repeated",
    )


def add_checkpoints(parser: Parser) -> None:
    """Add the option of how often to save a checkpoint."""
    parser.add_argument("--checkpoint-every", metavar="N", help="global rounds; default: 1")
    parser.add_argument("--keep-checkpoints", metavar="N", help="how many to keep; default: 2")


def read_options(args: argparse.Namespace) -> RunOptions:
    """The options of a run, checked."""
    from fedrt.records.options import CHUNK, PATH, WORKERS, RunOptions

    problems: list[str] = []
    share, count, words = Real(least=0, most=1), Whole(1, 1_000_000), Text()
    targets = [share.read(_number(each), "--target", problems) for each in args.targets]
    every, keep = getattr(args, "checkpoint_every", None), getattr(args, "keep_checkpoints", None)
    every = count.read(_number(every or "1"), "--checkpoint-every", problems)
    keep = count.read(_number(keep or "2"), "--keep-checkpoints", problems)
    chunk, workers = (
        None if text is None else rule.read(_number(text), option, problems)
        for text, option, rule in (
            (args.chunk, "--chunk", CHUNK),
            (args.workers, "--workers", WORKERS),
        )
    )
    data_dir = None if args.data_dir is None else os.path.abspath(args.data_dir)
    Maybe(PATH).read(data_dir, "--data-dir", problems)
    engine = words.read(args.engine or "stacked", "--engine", problems)
    device = words.read(args.device or "auto", "--device", problems)
    if str(device).partition(":")[0] == "meta":
        problems.append(problem("--device", device, "a device that can train"))
    Maybe(Text(300)).read(args.address, "--address", problems)
    if args.address is not None and engine != "ray":
        problems.append("--address: is for --engine ray")
    if problems:
        raise InputError(problems)
    return RunOptions(
        engine=str(engine),
        device=str(device),
        data_dir=data_dir,
        chunk=chunk,
        workers=workers,
        checkpoint_every=every or 1,
        keep_checkpoints=keep or 1,
        targets=tuple(value for value in targets if value is not None),
        tensorboard=getattr(args, "tensorboard", False),
        address=args.address,
    )


def _number(text: object) -> object:
    """A number if the text is one, else the text, which a rule then reports."""
    if not isinstance(text, str):
        return text
    try:
        return float(text)
    except ValueError:
        return text


def run(args: argparse.Namespace) -> None:
    """Start or resume a run; print its outcome."""
    began = time.monotonic()
    fresh = args.resume is None
    start = _started_path if args.branch is None else _branched_path
    path = start(args) if fresh else resumed_path(args)
    try:
        summary = _carry_on(path, fresh=fresh, quiet=args.json, address=args.address)
    except InputError:
        if fresh and path.exists():
            note(f"what was trained before that is in {path}; {_mended(path)}")
        raise
    except KeyboardInterrupt:
        note(f"stopped; go on with: {again('run', path)}")
        raise
    if args.json:
        print(json.dumps(summary, allow_nan=False))
        return
    from fedrt.report.learning import print_run

    print_run(summary, time.monotonic() - began, resumed=not fresh)
    print(f"saved in {path}")


def _carry_on(path: Path, *, fresh: bool, quiet: bool, address: str | None) -> Summary:
    from fedrt.records.directory import read_run
    from fedrt.report.progress import training_progress
    from fedrt.studies.training import carry_on
    from fedrt.system.files import gone_unless

    with gone_unless(path, "records", fresh=fresh):
        rounds = read_run(path).scenario.rounds.global_rounds
    with training_progress(rounds, quiet=quiet) as progress:
        return carry_on(path, progress, note, fresh=fresh, address=address)


def again(command: str, path: Path) -> str:
    """The command that resumes the run, with permission for code where it is needed."""
    from fedrt.records.directory import asks_for_code

    code = ["--allow-code"] if asks_for_code(path) else []
    return shlex.join(["fedrt", command, "--resume", str(path), *code])


def _mended(path: Path) -> str:
    """A sentence on how to continue a run that ended in an error."""
    resume = again("run", path)
    if not resume.endswith("--allow-code"):
        return f"go on with: {resume}"
    return f"once your code is mended, go on in a branch: {resume.replace('--resume', '--branch')}"


def note(line: str) -> None:
    """Print a note for the user beside the results."""
    print(with_options(printable(line)), file=sys.stderr, flush=True)


def resumed_path(args: argparse.Namespace) -> Path:
    """The folder to resume; it holds all options, so that others may not be given.

    Except where: a cluster may be gone while the run is to go on.
    """
    mine = ("run", "resume", "json", "address", "allow_code")
    given = [name for name, value in vars(args).items() if name not in mine and value]
    if given:
        names = ", ".join(Parser.options.get(name, name.upper()) for name in given)
        raise InputError(f"--resume: takes everything from its directory, not {names}")
    from fedrt.records.foreign import refuse_links

    refuse_links(Path(args.resume))  # before anything in it is read
    return Path(args.resume)


def _started_path(args: argparse.Namespace) -> Path:
    """A new run folder, complete before heavy libraries are loaded."""
    from fedrt.policies import make_policy
    from fedrt.scenario import load_scenario
    from fedrt.studies.training import start_run

    need("training", "torch")
    scenario = load_scenario(args.scenario or "quickstart", args.settings)
    policy, seed = args.policy or "fedrt", read_seed("0" if args.seed is None else args.seed)
    make_policy(policy)
    options = read_options(args)

    def start(path: Path) -> Path:
        start_run(path, scenario, policy, seed, typed_command(), options)
        return path

    return in_folder(args, "run", scenario.name, start)


def _branched_path(args: argparse.Namespace) -> Path:
    """A new run folder that begins with the newest state of another run."""
    from dataclasses import fields, replace

    from fedrt.records.directory import read_run
    from fedrt.records.foreign import refuse_links
    from fedrt.records.options import read_options as kept_options
    from fedrt.scenario import load_scenario
    from fedrt.studies.branch import start_branch

    for name, value in (("SCENARIO", args.scenario), ("--seed", args.seed)):
        if value is not None:
            raise InputError(f"--branch: takes scenario and seed from its directory, not {name}")
    source = Path(args.branch)
    refuse_links(source)
    run = read_run(source)
    if run.options is None:
        raise InputError(f"{source}: is a run without training; there is nothing to branch")
    given = {
        field.name: getattr(read_options(args), field.name)
        for field in fields(kept_options(source, run.options))
        if getattr(args, field.name, None) not in (None, [], False)
    }
    options = replace(kept_options(source, run.options), **given)
    scenario = load_scenario(source / "config.toml", args.settings)
    policy = args.policy or run.policy

    def start(path: Path) -> Path:
        start_branch(source, path, scenario, policy, options, typed_command())
        return path

    if args.out and os.path.exists(args.out) and os.path.samefile(args.out, source):
        raise InputError(f"--out {shown(args.out)}: is the run to branch from; give another")
    return in_folder(args, "branch", scenario.name, start)
