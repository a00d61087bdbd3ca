"""Branches: runs that continue from another run's state, with some settings changed.

It has a folder of its own. Its run.json says under `branch` where it comes from, after which round,
and what was changed; `before/` has the config.toml and run.json of the run it comes from, and that
one's own `before/` where it was a branch itself. Rounds before the branch are planned again as that
run has planned them; time, energy and models continue from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.policies import Policy, make_policy
from fedrt.records.checkpoint import Checkpoints, Record
from fedrt.records.directory import BEFORE, SavedRun, open_folder, read_run, refuse_old_format
from fedrt.records.foreign import refuse_links
from fedrt.records.identity import changes, file_digest, identity_of, listed, read_identity
from fedrt.records.options import RunOptions, read_options
from fedrt.records.records import RunSize
from fedrt.runs.executor import Executor
from fedrt.runs.loop import Restore, run_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.runs.state import RunState
from fedrt.scenario import Scenario
from fedrt.scenario.tables.fields import table_of
from fedrt.system.files import make_folder
from fedrt.validation import Whole
from fedrt.world.world import World

BRANCH = "branch"
SAID = ("config.toml", "run.json")
MOST_BRANCHES = 50
"""Of a branch of a branch, and so on."""
FIXED = (
    *("fleet.num_edges", "fleet.num_devices", "fleet.cluster_sizes", "rounds.edge_rounds"),
    *(
        "base_graph",
        "learning.model",
        "learning.dtype",
        "learning.server_optimiser",
        "learning.scaffold",
    ),
    "control.mixing",
)
"""What the state of a run and its tables have the shape of."""


@dataclass(frozen=True)
class Past:
    """The world and the policy with which the first rounds of a branch were planned."""

    world: World
    policy: Policy
    until: int
    """The first global round that is not one of them."""


@dataclass(frozen=True)
class Segment:
    """The rounds that a run has in common with the run it branched from."""

    run: SavedRun
    until: int
    """The first global round that is not one of them."""


def start_branch(
    source: Path,
    out: Path,
    scenario: Scenario,
    policy: str,
    options: RunOptions,
    command: str,
) -> None:
    """Create the folder of a branch, with the newest state of the run it comes from."""
    refuse_links(source)
    run = read_run(source)
    rounds = _branch_point(source, run)
    _check_shape(source, run.scenario, scenario, rounds)
    kept = read_identity(source, run.run)
    own = asdict(read_options(source, run.options))
    past = branch_identity(source / BEFORE)
    now = identity_of(run.scenario, [run.policy], [run.seed], own, past)
    altered = [] if kept is None else changes(kept.said, now.said)
    unseen = [line for line in altered if not line.startswith("the source of ")]
    if unseen:
        raise InputError(
            f"{source}: cannot be branched, for since it was started {listed(unseen)}; undo that"
            " and say what the branch changes by `settings` and the like"
        )
    make_policy(policy)
    more = {f"{BEFORE}/{name}": digest for name, digest in past.items()}
    more |= {f"{BEFORE}/{name}": file_digest(source / name) for name in SAID}
    new = identity_of(scenario, [policy], [run.seed], asdict(options), more)
    told = [
        *altered,
        *(line for line in changes(now.said, new.said) if not line.startswith(f"{BEFORE}/")),
    ]
    branch = {
        "from": str(source.resolve()),
        "identity": None if kept is None else kept.digest,
        "after_global_round": rounds - 1,
        "changed": told,
    }
    said = {"policy": policy, "seed": run.seed, "command": command, "options": asdict(options)}

    def fill(folder: Path) -> None:
        _copy_said(source, folder / BEFORE)
        for name, numbers in (("checkpoints", [rounds]), ("records", range(rounds))):
            make_folder(folder / name)
            for number in numbers:
                file = f"{name}/{number:06}.npz"
                shutil.copyfile(source / file, folder / file, follow_symlinks=False)

    open_folder(out, scenario, {**said, BRANCH: branch}, identity=new, fill=fill)


def _branch_point(source: Path, run: SavedRun) -> int:
    """The number of rounds before the newest state that can be read."""
    if run.options is None:
        raise InputError(f"{source}: is a run without training; there is nothing to branch")
    if run.summary is not None:
        raise InputError(f"{source}: has ended: only a run that was stopped can be branched")
    refuse_old_format(source, run)
    rounds = Checkpoints(source).newest(RunSize.of(run.scenario))
    if not rounds:
        raise InputError(f"{source}: has no checkpoint to branch from")
    return rounds


def _check_shape(source: Path, before: Scenario, now: Scenario, rounds: int) -> None:
    problems = []
    for name in FIXED:
        old, new = (_setting(table_of(scenario), name) for scenario in (before, now))
        if old != new:
            problems.append(f"{source}: a branch cannot change scenario.{name}")
    if (before.faults is None) != (now.faults is None):
        problems.append(f"{source}: a branch cannot begin or end scenario.faults")
    if now.rounds.global_rounds <= rounds:
        rule = f"must be more than the {rounds} that are done"
        problems.append(f"scenario.rounds.global_rounds = {now.rounds.global_rounds}: {rule}")
    if problems:
        raise InputError(problems)


def _setting(table: Any, name: str) -> Any:
    """The value of a setting in a table; None where it is not set."""
    for key in name.split("."):
        table = None if table is None else table.get(key)
    return table


def _copy_said(source: Path, to: Path) -> None:
    """Copy a run's own description, with those of the runs it branched from."""
    make_folder(to)
    for name in SAID:
        shutil.copyfile(source / name, to / name, follow_symlinks=False)
    if (source / BEFORE).is_dir():
        _copy_said(source / BEFORE, to / BEFORE)


def branch_identity(before: Path) -> dict[str, str]:
    """Digests of the descriptions of the runs before a branch; empty for other runs."""
    found: dict[str, str] = {}
    folder, prefix = before, BEFORE
    for _ in range(MOST_BRANCHES):
        if not folder.is_dir():
            break
        found |= {f"{prefix}/{name}": file_digest(folder / name) for name in SAID}
        folder, prefix = folder / BEFORE, f"{prefix}/{BEFORE}"
    return found


def past_of(path: Path, run: SavedRun) -> list[Segment]:
    """The runs from which a branch has its first rounds, earliest first."""
    found: list[Segment] = []
    folder, branch = path, run.run.get(BRANCH)
    while branch is not None:
        where, folder = folder / "run.json", folder / BEFORE
        problems: list[str] = []
        after = branch.get("after_global_round") if isinstance(branch, Mapping) else None
        last = Whole(0, 999_999).read(after, f"{where}: branch.after_global_round", problems)
        if last is None or len(found) == MOST_BRANCHES:
            raise InputError(problems or f"{where}: has too many branches behind it")
        before = read_run(folder)
        found.append(Segment(before, last + 1))
        branch = before.run.get(BRANCH)
    return found[::-1]


def branched_rounds(
    past: Sequence[Past],
    world: World,
    policy: Policy,
    executor: Executor,
    records: Sequence[Record] = (),
    restore: Restore | None = None,
) -> Iterator[GlobalRound]:
    """Yield every global round of a run, the earlier ones with the worlds and policies they had.

    Those with a record are taken from it; `restore` as in `run_rounds`.
    """
    state: RunState | None = None
    planner: Policy | None = None
    for each in (*past, Past(world, policy, world.scenario.rounds.global_rounds)):
        if state is not None:
            memory, same = state.memory, each.policy is planner
            state = state.carried_over(each.world, each.policy)
            state = replace(state, memory=memory) if same else state
        planner = each.policy
        for done in run_rounds(
            each.world, each.policy, executor, past=records, state=state, restore=restore
        ):
            state = done.state
            yield done
            if state.ledger.t == each.until:
                break
