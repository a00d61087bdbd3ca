"""`fedrt coordinator`: a run on real devices, from its first round or from where it stopped."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.common.settings import CoordinatorSettings
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.coordinator.learned import Learned
from fedrt.devices.coordinator.live import LiveFile, run_name
from fedrt.devices.coordinator.newest import texts
from fedrt.devices.coordinator.world import MeasuredWorld
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.policies import make_policy
from fedrt.records.directory import INPUTS, RunDirectory, SavedRun, read_run
from fedrt.records.foreign import refuse_links
from fedrt.records.identity import check_same, identity_of, read_identity
from fedrt.records.options import RunOptions
from fedrt.records.records import RunSize
from fedrt.records.summary import Summary
from fedrt.runs.loop import simulate_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario
from fedrt.studies.training import DEVICES, Job, open_checkpoints
from fedrt.system.files import private_files, write_json
from fedrt.world.simulated import SimulatedWorld

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]
Progress = Callable[[GlobalRound], None]
OPTIONS = RunOptions(engine=DEVICES)

REHEARSAL_S = 3.0
"""How long rounds are simulated before the run, after a first one."""


class RemoteState:
    """What the coordinator saves after every global round: the servers' states, and their models.

    A run goes on from the states, and from its model where a server has lost its state.
    """

    def __init__(self, executor: RemoteExecutor) -> None:
        self.executor = executor

    def state(self) -> Arrays:
        """The labels of the servers' states, which pairs gossiped last, and the newest models."""
        labels = np.array(self.executor.fleet.labels, dtype="S80")
        found = {"labels": labels, "linked": self.executor.linked}
        if samples := self.executor.fleet.samples:
            found["samples"] = np.array(sorted(samples.items()), dtype=np.int64)
        return found | self.executor.newest.state()

    def restore(self, state: Arrays) -> None:
        """Go on from a saved state."""
        self.executor.fleet.labels = texts(state["labels"])
        self.executor.linked = np.array(state["linked"], dtype=bool)
        self.executor.newest.restore(state, self.executor.fleet.labels)
        samples = np.array(state.get("samples", np.zeros((0, 2))), dtype=np.int64).reshape(-1, 2)
        self.executor.fleet.samples = {int(n): int(count) for n, count in samples}


def coordinate(
    settings: CoordinatorSettings,
    path: Path,
    command: str,
    progress: Progress | None = None,
    note: Callable[[str], None] = print,
    callbacks: Sequence[Any] = (),
) -> Summary:
    """Run a scenario on real devices and return the summary; a stopped run goes on."""
    with private_files():
        return _coordinate(settings, path, command, progress, note, callbacks)


def _coordinate(
    settings: CoordinatorSettings,
    path: Path,
    command: str,
    progress: Progress | None,
    note: Callable[[str], None],
    callbacks: Sequence[Any],
) -> Summary:
    from fedrt.learning.remote import Evaluator

    scenario, policy, seed = settings.scenario, settings.policy, settings.seed
    options = asdict(OPTIONS)
    run = begun(settings, path, note)
    if run is None:
        make_policy(policy)
        identity = identity_of(scenario, [policy], [seed], options)
        RunDirectory.create(path, scenario, policy, seed, command, options, identity)
    elif run.summary is not None:
        return run.summary
    evaluator = Evaluator.open(scenario, seed, Path(settings.data))
    directory = RunDirectory(path)
    with directory.locked():
        fleet = RealFleet(settings, run_name(path), inputs_of(evaluator), note)
        try:
            fleet.start_metrics()
            given = (settings, directory, fleet, evaluator)
            return _run(*given, progress, note, callbacks)
        finally:
            fleet.close()


def begun(
    settings: CoordinatorSettings, path: Path, note: Callable[[str], None]
) -> SavedRun | None:
    """The run in a folder, which can go on; None without one, an error if it is another run."""
    if not path.exists():
        return None
    refuse_links(path)
    run = read_run(path)
    if run.summary is None:
        asked = [settings.policy], [settings.seed], asdict(OPTIONS)
        check_same(path, read_identity(path, run.run), identity_of(settings.scenario, *asked), note)
    return run


def _run(
    settings: CoordinatorSettings,
    directory: RunDirectory,
    fleet: RealFleet,
    evaluator: Any,
    progress: Progress | None,
    note: Callable[[str], None],
    callbacks: Sequence[Any],
) -> Summary:
    scenario, seed = settings.scenario, settings.seed
    learned = Learned(scenario.fleet.num_devices, scenario.fleet.num_edges)
    world = MeasuredWorld(scenario, seed, fleet, learned)
    fleet.base_graph = world.base_graph
    executor = RemoteExecutor(fleet, learned, evaluator, world.base_graph)
    saved = RemoteState(executor)
    checkpoints = open_checkpoints(directory.path, OPTIONS)
    size = RunSize.of(scenario)
    state, records, notes = checkpoints.load(saved.state(), size, start_over=False)
    for line in notes:
        note(line)
    if not state:
        checkpoints.save(0, saved.state())  # from now on a run that has begun can be told by it
    if records:
        saved.restore(state)
        for record in records:
            for turn in record:
                executor.learn(turn.seen, turn.outcome)
                executor.learn_gossip(turn.seen, turn.plan, turn.outcome)
                executor.learn_overhead(turn.outcome)
        note(f"going on after global round {len(records)}")
    kept = read_identity(directory.path, read_run(directory.path).run)
    write_json(directory.path / INPUTS, evaluator.noted_inputs)
    job = Job(directory, checkpoints, OPTIONS, kept, callbacks)
    rehearse(scenario, seed, settings.policy)
    policy = make_policy(settings.policy)
    live = LiveFile(directory.path, fleet, learned, records)
    fleet.changed = live.write
    with closing(job.rounds(world, policy, executor, saved, records, state=state)) as rounds:
        for done in rounds:
            live.add(done)
            if progress is not None:
                progress(done)
    assert job.summary is not None
    return job.summary


def rehearse(scenario: Scenario, seed: int, policy: str) -> None:
    """Plan what a simulated run would, so that what has to be compiled then is.

    On a new machine that takes seconds, at the first plan and whenever another case comes up;
    devices would wait for it in the middle of a run.
    """
    end = math.inf
    for _ in simulate_rounds(SimulatedWorld(scenario, seed), make_policy(policy)):
        end = min(end, time.monotonic() + REHEARSAL_S)
        if time.monotonic() > end:
            return


def inputs_of(evaluator: Any) -> pb.Inputs:
    """What the model takes, for edge servers, which have no data."""
    given = evaluator.inputs
    return pb.Inputs(
        shape=list(given.shape), num_classes=given.num_classes, integers=given.integers
    )
