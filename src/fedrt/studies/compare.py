"""`fedrt compare`: several policies trained on the same worlds, with equal work done once.

All policies of a seed go through each global round together. Training does not depend on seconds or
joules, so as long as two policies have used the same links, steps and devices their models are the
same to the bit: the learners know by keys (`learning.trainer`), and the second takes the first's.

A comparison is a folder of run directories, each with checkpoints until it has ended, so it goes on
after a stop as a single run does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.measures import measure_of
from fedrt.policies import make_policy
from fedrt.quantities import SEED
from fedrt.records.checkpoint import Record
from fedrt.records.directory import (
    RunDirectory,
    SavedRun,
    open_folder,
    read_opened,
    read_run,
    refuse_old_format,
    run_name,
)
from fedrt.records.foreign import refuse_links
from fedrt.records.identity import Identity, check_same, identity_of, read_identity
from fedrt.records.options import RunOptions, read_options
from fedrt.records.records import RunSize
from fedrt.records.summary import Summary
from fedrt.records.tuning_file import FILE as TUNING
from fedrt.records.tuning_file import mend_tuning_file, tell_edited_tuning
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import make_world
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario, load_scenario
from fedrt.studies.estimates import comparison, over_seeds, time_ratio
from fedrt.studies.training import RAY, Job, Training, make_run_setup, open_checkpoints
from fedrt.system.extras import need
from fedrt.system.files import gone_unless, write_json
from fedrt.system.torn import clear_torn
from fedrt.validation import Listed, Text, problem

Progress = Callable[[str, int, GlobalRound], None]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """The description of a comparison that its folder holds."""

    out: Path
    scenario: Scenario
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    options: RunOptions
    command: str

    def folder(self, policy: str, seed: int) -> Path:
        """The run folder of one policy and seed."""
        return self.out / run_name(policy, seed)


def start_comparison(
    scenario: Scenario,
    policies: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    options: RunOptions,
    command: str = "",
) -> Comparison:
    """Create the folder of a comparison, without loading heavy libraries."""
    for name in policies:
        make_policy(name)  # complains before anything is made
    what = {"policies": list(policies), "seeds": list(seeds), "command": command}
    identity = identity_of(scenario, policies, seeds, asdict(options))
    open_folder(out, scenario, what | {"options": asdict(options)}, identity=identity)
    return Comparison(out, scenario, tuple(policies), tuple(seeds), options, command)


def read_comparison(path: Path, address: str | None = None, note: Note = print) -> Comparison:
    """The comparison in a folder; an error if it holds none.

    `address` is that of another cluster than its own options name.
    """
    refuse_links(path)
    run, where = read_opened(path, "a comparison"), path / "run.json"
    if not {"policies", "seeds", "options"} <= run.keys():
        raise InputError(f"{path}: is no comparison that can go on: fedrt compare makes them")
    problems: list[str] = []
    policies = Listed(Text()).read(run["policies"], f"{where}: policies", problems)
    seeds = Listed(SEED).read(run["seeds"], f"{where}: seeds", problems)
    command = Text(100_000, lines=True).read(run.get("command"), f"{where}: command", problems)
    if problems or not policies or not seeds:
        raise InputError(problems or f"{where}: names no policy or no seed")
    for what, values in (("policies", policies), ("seeds", seeds)):
        if len({*values}) < len(values):
            raise InputError(problem(f"{where}: {what}", values, "each named once"))
    for name in policies:
        run_name(name, 0)
        make_policy(name)  # complains before any folder is made
    options = read_options(path, run["options"])
    if address is not None and options.engine != RAY:
        raise InputError(f"`address`: {path} trains with `engine` {options.engine}, not {RAY}")
    scenario = load_scenario(path / "config.toml")
    now = identity_of(scenario, policies, seeds, asdict(options))
    check_same(path, read_identity(path, run), now, note)
    options = replace(options, address=address or options.address)
    return Comparison(path, scenario, tuple(policies), tuple(seeds), options, str(command))


def go_on(
    said: Comparison,
    progress: Progress | None = None,
    note: Note = print,
    *,
    fresh: bool = False,
    callbacks: Sequence[Any] = (),
) -> dict[str, list[Summary]]:
    """Train every policy on every seed from its present state; return the summaries.

    `fresh` says that the folder was made for this call: it is deleted if not every policy completes
    a round.
    """
    need("training", "torch")
    results: dict[str, list[Summary]] = {name: [] for name in said.policies}
    clear_torn(said.out)
    with gone_unless(said.out, "*/rounds.parquet", fresh=fresh, least=len(said.policies)):
        for seed in said.seeds:
            for name, summary in _compare_on(seed, said, progress, note, callbacks).items():
                results[name].append(summary)
    write_json(said.out / "comparison.json", training_comparison(said.scenario.name, results))
    return results


def training_comparison(scenario: str, results: Mapping[str, Sequence[Summary]]) -> dict[str, Any]:
    """The comparison as JSON data with measures and differences to the first policy."""
    whole = comparison(scenario, results)
    first = next(iter(results))
    for name, runs in results.items():
        into, measure = whole["policies"][name], measure_of(runs[0])
        for key in (f"best_{measure.name}", f"final_{measure.name}"):
            into[key] = over_seeds([run[key] for run in runs])
        into["targets"] = {
            target: [run["targets"][target] for run in runs] for target in runs[0]["targets"]
        }
        into["minus_first"] = differences(runs, results[first])
    return whole | {"first": first}


def differences(runs: Sequence[Summary], first: Sequence[Summary]) -> dict[str, Any]:
    """Differences to the first policy in the best value and relative time, paired by seed."""
    pairs = list(zip(runs, first, strict=True))
    ratios = [time_ratio(a["total_time_s"], b["total_time_s"]) for a, b in pairs]
    best = f"best_{measure_of(runs[0]).name}"
    return {
        best: over_seeds(
            [None if None in (a[best], b[best]) else a[best] - b[best] for a, b in pairs]
        ),
        "total_time": over_seeds([None if x is None else x - 1 for x in ratios]),
    }


def _compare_on(
    seed: int,
    said: Comparison,
    progress: Progress | None,
    note: Note,
    callbacks: Sequence[Any],
) -> dict[str, Summary]:
    """Train all policies on one seed, one global round of each at a time."""
    folders = {name: said.folder(name, seed) for name in said.policies}
    ended: dict[str, Summary] = {}
    options = asdict(said.options)
    with ExitStack() as stack:
        jobs = {}
        for name, folder in folders.items():
            now = identity_of(said.scenario, [name], [seed], options)
            if not folder.exists():
                RunDirectory.create(folder, said.scenario, name, seed, said.command, options, now)
            directory = RunDirectory(folder)
            stack.enter_context(directory.locked())
            run = read_run(folder)
            refuse_old_format(folder, run)
            kept, outcome = read_identity(folder, run.run), run.summary
            _check_run(folder, run, kept, now, note)
            checkpoints = open_checkpoints(folder, said.options)
            job = Job(directory, checkpoints, said.options, kept, callbacks)
            if outcome is None:
                jobs[name] = job
            else:
                ended[name] = outcome
                job.checkpoints.clear(keep_models=bool(said.options.keep_models))
        if jobs:
            _train_together(seed, said, jobs, progress, note)
        for name, job in jobs.items():
            assert job.summary is not None
            ended[name] = job.summary
            job.checkpoints.clear(keep_models=bool(said.options.keep_models))
    return {name: ended[name] for name in said.policies}


def _check_run(
    folder: Path, run: SavedRun, kept: Identity | None, now: Identity, note: Note
) -> None:
    """Raise an error about a run folder that is not the one the comparison describes."""
    own = read_options(folder, run.options)
    said = identity_of(run.scenario, [run.policy], [run.seed], asdict(own))
    for other in (said, now):
        check_same(folder, kept, other, note)


def _train_together(
    seed: int, said: Comparison, jobs: Mapping[str, Job], progress: Progress | None, note: Note
) -> None:
    from fedrt.learning.trainer import Trainer

    data_dir = Path(said.options.data_dir) if said.options.data_dir else None
    world = make_world(said.scenario, seed, data_dir)
    with ExitStack() as stack:
        tuning_file = said.out / TUNING
        # All runs of a comparison are tuned alike; each keeps how.
        first = next(iter(jobs.values()))
        begun = any(job.begun for job in jobs.values())
        mend_tuning_file(tuning_file, first.identity, begun=begun, note=note)
        setup = make_run_setup(world, said.options, tuning_file)
        stack.callback(setup.close)
        for line in setup.notes if seed == said.seeds[0] else ():
            note(line)
        tell_edited_tuning(tuning_file, first.identity, note)
        shared: dict[bytes, Any] = {}
        rounds = []
        trainers = {name: Trainer(setup, shared) for name in jobs}
        for job in jobs.values():
            job.check(setup, tuning_file)
        for name, records in _restore(seed, said, jobs, trainers, note).items():
            job, trainer = jobs[name], trainers[name]
            job.save_inputs(setup)
            # A new policy for every seed, as separate runs would have: it may keep a state.
            executor = SimulatedExecutor(world, trainer)
            steps = job.rounds(world, make_policy(name), executor, trainer, records)
            rounds.append((name, stack.enter_context(closing(steps))))
        for _ in range(said.scenario.rounds.global_rounds):
            for name, steps in rounds:
                done = next(steps, None)  # None: it has stopped early
                if progress is not None and done is not None:
                    progress(name, seed, done)
            # What the next round starts from, the learners hold themselves.
            shared.clear()
        for _, steps in rounds:
            next(steps, None)


def _restore(
    seed: int,
    said: Comparison,
    jobs: Mapping[str, Job],
    trainers: Mapping[str, Training],
    note: Note,
) -> dict[str, list[Record]]:
    """Restore every trainer's newest state and return the records up to it.

    A stop may have come between two policies: those ahead go back a round, so that equal work is
    shared again.
    """
    size = RunSize.of(said.scenario)
    likes = {name: trainer.state() for name, trainer in trainers.items()}
    found = {name: job.checkpoints.load(likes[name], size) for name, job in jobs.items()}
    common = min(len(records) for _, records, _ in found.values())
    restored = {}
    for name, job in jobs.items():
        state, records, notes = found[name]
        if len(records) > common:
            state, records, notes = job.checkpoints.load(likes[name], size, common)
        for line in notes:
            note(f"{name}, seed {seed}: {line}")
        if records:
            trainers[name].restore(state)
            note(f"{name}, seed {seed}: going on after global round {len(records)}")
        restored[name] = records
    return restored
