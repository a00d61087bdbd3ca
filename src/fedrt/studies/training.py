"""`fedrt run`: train one policy on one seed, and save everything needed to resume.

A fresh run and a resumed one go the same way: everything is read back from the run directory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedrt.callbacks.base import Calls, RunInfo
from fedrt.callbacks.loggers import make_loggers
from fedrt.errors import FedrtError, InputError, UnfinishedError, reason
from fedrt.policies import Policy, make_policy
from fedrt.records.checkpoint import Arrays, Checkpoints, Record
from fedrt.records.directory import (
    BEFORE,
    INPUTS,
    RunDirectory,
    SavedRun,
    read_run,
    refuse_old_format,
)
from fedrt.records.foreign import refuse_links
from fedrt.records.identity import (
    DATA,
    Identity,
    check_later,
    check_same,
    identity_of,
    read_identity,
)
from fedrt.records.options import RunOptions, read_options
from fedrt.records.records import RunSize
from fedrt.records.summary import Account, Summary
from fedrt.records.tuning_file import FILE as TUNING
from fedrt.records.tuning_file import KEY, mend_tuning_file, read_tuning_file, tell_edited_tuning
from fedrt.runs.executor import Executor, Models, SimulatedExecutor
from fedrt.runs.loop import Restore, make_world
from fedrt.runs.plain import NAME, packed, unpacked
from fedrt.runs.rounds import GlobalRound
from fedrt.runs.stopping import Stopping
from fedrt.scenario import Scenario
from fedrt.studies.branch import BRANCH, Past, branch_identity, branched_rounds, past_of
from fedrt.system.blame import told
from fedrt.system.extras import need
from fedrt.system.files import gone_unless, write_json
from fedrt.system.signals import uninterrupted
from fedrt.system.torn import clear_torn
from fedrt.world.fleet import fleet_notes
from fedrt.world.simulated import SimulatedWorld
from fedrt.world.world import World

if TYPE_CHECKING:
    from fedrt.learning.setup import Setup

Progress = Callable[[GlobalRound], None]
RAY, DEVICES = "ray", "devices"


class Saved(Protocol):
    """What has a state on which the rest of a run depends."""

    def state(self) -> Arrays:
        """The state after a gossip."""
        ...


class Training(Models, Saved, Protocol):
    """Models that are trained, and whose state can be saved and restored."""

    @property
    def setup(self) -> Setup:
        """The data, model and engine that training uses."""
        ...

    def restore(self, state: Arrays) -> None:
        """Restore a saved state."""
        ...


OpenTrainer = Callable[[SimulatedWorld, RunOptions, Path | None], AbstractContextManager[Training]]


def start_run(
    path: Path, scenario: Scenario, policy: str, seed: int, command: str, options: RunOptions
) -> None:
    """Create the folder of a run, without loading heavy libraries."""
    make_policy(policy)
    identity = identity_of(scenario, [policy], [seed], asdict(options))
    RunDirectory.create(path, scenario, policy, seed, command, asdict(options), identity)


def carry_on(
    path: Path,
    progress: Progress | None = None,
    note: Callable[[str], None] = print,
    *,
    fresh: bool = False,
    open_trainer: OpenTrainer | None = None,
    address: str | None = None,
    callbacks: Sequence[Any] = (),
) -> Summary:
    """Train from the newest checkpoint to the end and return the summary.

    A finished run is not run again.

    `fresh` says that the folder was made for this call: it is deleted if the run cannot even start,
    so that the command can be given again. `open_trainer` is for callers
    that carry on several runs with one setup. `address` is that of another cluster than the run's
    own options name. `callbacks` are told of the rounds from here on.
    """
    if not fresh:
        refuse_links(path)
    # A branch has copies of records from the start; a run has its own after its first round.
    sign = "rounds.parquet" if (path / BEFORE).is_dir() else "records"
    with gone_unless(path, sign, fresh=fresh):
        run, options = _read(path)
        if address is not None and options.engine != RAY:
            raise InputError(f"`address`: {path} trains with `engine` {options.engine}, not {RAY}")
    if run.summary is not None:
        return run.summary
    directory = RunDirectory(path)
    with directory.locked(), gone_unless(path, sign, fresh=fresh):
        # Read again: whoever held the lock until now may have ended the run.
        run, options = _read(path)
        if run.summary is not None:
            return run.summary
        kept = read_identity(path, run.run)
        if not fresh:
            more = branch_identity(path / BEFORE)
            now = identity_of(run.scenario, [run.policy], [run.seed], asdict(options), more)
            check_same(path, kept, now, note)
        options = replace(options, address=address or options.address)
        branch = {BRANCH: run.run[BRANCH]} if BRANCH in run.run else {}
        checkpoints = open_checkpoints(path, options)
        job = Job(directory, checkpoints, options, kept, callbacks, branch)
        return _train(job, run, open_trainer or opened_trainer, progress, note)


def _read(path: Path) -> tuple[SavedRun, RunOptions]:
    run = read_run(path)
    if run.options is None:
        raise InputError(f"{path}: is a run without training; there is nothing to go on with")
    refuse_old_format(path, run)
    options = read_options(path, run.options)
    if options.engine == DEVICES:
        rule = "`fedrt coordinator` goes on with it, given the same settings"
        raise InputError(f"{path}: is a run on real devices: {rule}")
    return run, options


def make_run_setup(world: SimulatedWorld, options: RunOptions, tuning_file: Path | None) -> Setup:
    """The data, model and engine for the given options; loads torch."""
    need("training", "torch")
    common: dict[str, Any] = {
        "device": options.device,
        "data_dir": Path(options.data_dir) if options.data_dir else None,
        "chunk": options.chunk,
        "workers": options.workers,
        "tuning_file": tuning_file,
    }
    if options.engine == RAY:
        from fedrt.distributed.setup import make_ray_setup

        return make_ray_setup(world, address=options.address, **common)
    from fedrt.learning.setup import make_setup

    return make_setup(world, engine=options.engine, **common)


@contextmanager
def opened_trainer(
    world: SimulatedWorld, options: RunOptions, tuning_file: Path | None
) -> Iterator[Training]:
    """The trainer of a world; its setup is closed when the block ends."""
    setup = make_run_setup(world, options, tuning_file)
    from fedrt.learning.trainer import Trainer

    try:
        yield Trainer(setup)
    finally:
        setup.close()


def open_checkpoints(path: Path, options: RunOptions) -> Checkpoints:
    """The checkpoints of a run folder, after deleting incomplete files of an interrupted run."""
    checkpoints = Checkpoints(path, options.keep_checkpoints)
    for folder in (path, checkpoints.checkpoints, checkpoints.records):
        clear_torn(folder)
    return checkpoints


def _train(
    job: Job,
    run: SavedRun,
    open_trainer: OpenTrainer,
    progress: Progress | None,
    note: Callable[[str], None],
) -> Summary:
    data_dir = Path(job.options.data_dir) if job.options.data_dir else None
    world, policy = make_world(run.scenario, run.seed, data_dir), make_policy(run.policy)
    tuning_file = job.directory.path / TUNING
    mend_tuning_file(tuning_file, job.identity, begun=job.begun, note=note)
    with open_trainer(world, job.options, tuning_file) as trainer:
        tell_edited_tuning(tuning_file, job.identity, note)
        job.check(trainer.setup, tuning_file)
        state, records, notes = job.checkpoints.load(trainer.state(), RunSize.of(run.scenario))
        for line in (*fleet_notes(run.scenario, world.fleet), *trainer.setup.notes, *notes):
            note(line)
        if records:
            trainer.restore(state)
            note(f"going on after global round {len(records)}")
        job.save_inputs(trainer.setup)
        past = _past(job, run, policy, data_dir)
        executor = SimulatedExecutor(world, trainer)
        with closing(job.rounds(world, policy, executor, trainer, records, past, state)) as rounds:
            for done in rounds:
                if progress is not None:
                    progress(done)
    assert job.summary is not None
    return job.summary


def _past(job: Job, run: SavedRun, policy: Policy, data_dir: Path | None) -> list[Past]:
    """The worlds and policies of the rounds before a branch.

    A policy that has not changed keeps its state.
    """
    found: list[Past] = []
    for segment in past_of(job.directory.path, run):
        then = segment.run
        planner = policy if then.policy == run.policy else make_policy(then.policy)
        world = make_world(then.scenario, then.seed, data_dir)
        found.append(Past(world, planner, segment.until))
    return found


@dataclass
class Job:
    """A run that is being trained."""

    directory: RunDirectory
    checkpoints: Checkpoints
    options: RunOptions
    identity: Identity | None
    """What it was started with; None for folders older than that."""
    callbacks: Sequence[Any] = ()
    """Who is told of the run (`callbacks.base`), besides the loggers among the options."""
    more: Summary = field(default_factory=dict)
    """Further entries of the summary: for a branch, where it comes from."""
    summary: Summary | None = None
    """The summary, once all rounds have ended."""

    @property
    def begun(self) -> bool:
        """Whether an earlier process trained some rounds."""
        return self.checkpoints.checkpoints.is_dir()

    def check(self, setup: Setup, tuning_file: Path) -> None:
        """Raise an error if the data have changed; the first time, save their digest."""
        tuning = read_tuning_file(tuning_file)
        free = {} if tuning is None or self.begun else {KEY: dict(tuning)}
        check_later(self.directory.path, self.identity, {DATA: setup.data_digest}, free)

    def save_inputs(self, setup: Setup) -> None:
        """Save who holds which samples, and what the model takes."""
        from fedrt.learning.exporting import Inputs

        parts = setup.parts
        self.directory.save_partition(parts.class_counts(), parts.edge_of_device)
        write_json(self.directory.path / INPUTS, asdict(Inputs.of(setup.samples)))

    def rounds(
        self,
        world: World,
        policy: Policy,
        executor: Executor,
        trainer: Saved,
        records: list[Record],
        past: Sequence[Past] = (),
        state: Arrays | None = None,
    ) -> Generator[GlobalRound, None, None]:
        """Yield every global round, from its record if there is one, and save each.

        `state` is that of the checkpoint after the records. In those of older versions the policy's
        memory is missing: it plans the rounds of the records again.
        """
        account = Account(world, policy, self.options.device_rows)
        finished, total = len(records), world.scenario.rounds.global_rounds
        calls = self._calls(world, finished)
        stopping = Stopping(self.options.stop_at, self.options.patience, account.measures)
        try:
            restore = None if state is None or NAME not in state else self._restorer(state)
            rounds = branched_rounds(past, world, policy, executor, records, restore)
            for t in range(total):
                calls.round_begins(t)
                done = next(rounds)
                why = stopping.after(done.metrics)
                with uninterrupted():
                    if t >= finished:  # before anything is made of it that may fail
                        self._save(done, trainer, last=why is not None or t + 1 == total)
                    account.add(done)
                    if t >= finished:
                        self.directory.save_sometimes(account.history)
                if t >= finished:
                    calls.round_ended(account.history)
                yield done
                if why is not None:
                    self.more["stopped"] = {"after_global_round": t, "why": why}
                    break
        except (Exception, KeyboardInterrupt, GeneratorExit):
            # The checkpoint is whole whatever happened; the tables catch up with it here if they
            # can, but what stopped the run is what the user has to hear of.
            if account.last is not None:
                with uninterrupted(), suppress(Exception):
                    self.directory.save(account.history)
            raise
        self.summary = self._ended(account)
        calls.run_ended(self.summary)

    def _ended(self, account: Account) -> Summary:
        """The summary of a run whose rounds have ended, saved as what marks its end.

        The records stay until then: whatever goes wrong here, `resume` makes the summary anew.
        """
        folder = self.directory.path
        with uninterrupted():
            self.directory.save(account.history)
            try:
                summary = account.summary(self.options.targets) | self.more
                self.directory.finish(summary)
            except Exception as error:
                code = error.exit_code if isinstance(error, FedrtError) else 1
                why = reason(error) if isinstance(error, FedrtError) else told(error)
                raise UnfinishedError(
                    f"{folder}: all rounds are trained and saved, but the summary cannot be"
                    f" written: {why}",
                    code,
                ) from error
            self.checkpoints.clear_records()
        return summary

    def _restorer(self, state: Arrays) -> Restore:
        """What gives a state of the run its saved part."""
        where = str(self.checkpoints.checkpoints)
        return lambda now: now.restored(unpacked(state, now.saved, where))

    def _calls(self, world: World, finished: int) -> Calls:
        """Whoever is to be told of the run from a round on."""
        folder = self.directory.path
        policy = read_run(folder).policy
        run = RunInfo(folder, world.scenario, policy, world.seed, finished)
        names = ["tensorboard"] if self.options.tensorboard else []
        names += [name for name in self.options.log or () if name not in names]
        return Calls([*make_loggers(names, run), *self.callbacks], run)

    def _save(self, done: GlobalRound, trainer: Saved, *, last: bool) -> None:
        rounds = done.last.t + 1
        self.checkpoints.save_record(done.last.t, done.edge_rounds)
        if rounds % self.options.checkpoint_every == 0 or last:
            self.checkpoints.save(rounds, {**trainer.state(), **packed(done.state.saved)})
