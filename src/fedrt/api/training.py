"""`fedrt.run` and `fedrt.compare`: training under one policy, or under several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Unpack

from fedrt.api.asked import (
    ALL,
    Objects,
    Policies,
    PolicyLike,
    Seeds,
    Settings,
    TrainingOptions,
    folder_of,
    read_options,
    read_policies,
    read_policy,
    read_scenario_asked,
    read_seed,
    read_seeds,
)
from fedrt.api.data import Data, data_path
from fedrt.api.estimates import estimate
from fedrt.api.folders import Place, again, in_folder, refuse_given
from fedrt.api.results import ComparisonResult, RunResult
from fedrt.api.session import command_text, note
from fedrt.callbacks.base import check_callbacks
from fedrt.errors import InputError, UnfinishedError
from fedrt.policies import make_policy
from fedrt.records.directory import read_opened, read_run
from fedrt.records.foreign import refuse_links
from fedrt.records.options import RunOptions
from fedrt.records.options import read_options as kept_options
from fedrt.records.summary import Summary
from fedrt.report.progress import comparison_progress, training_progress
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import Source
from fedrt.scenario.tables.layers import given_path
from fedrt.studies.branch import start_branch
from fedrt.studies.compare import Comparison, go_on, read_comparison, start_comparison
from fedrt.studies.training import carry_on, start_run
from fedrt.system.extras import need
from fedrt.system.files import gone_unless
from fedrt.system.plugins import GivenPath, offered
from fedrt.validation import shown


def run(
    scenario: Source | None = None,
    *,
    policy: PolicyLike | None = None,
    seed: int | str | None = None,
    model: Any = None,
    data: Data | None = None,
    rounds: int | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    branch: Place | None = None,
    callbacks: Sequence[Any] = (),
    progress: bool = True,
    **options: Unpack[TrainingOptions],
) -> RunResult:
    """Train a model over the simulated fleet under one policy: `fedrt run`.

    `scenario` is a shipped one's name (`quickstart` if none is given), a TOML file or a value of
    `fedrt.scenario`; `settings`, `model`, `data` and `rounds` change it. `policy` is a name, an
    import path, a class or an object. The run is saved in the folder `out`. `resume` goes on with
    a run that was stopped; objects that it was given are to be given again. `branch` starts a run
    from another one's newest state, with the changes that are given. `callbacks` are told of every
    round (`fedrt.Callback`).
    """
    check_callbacks(callbacks)
    objects = Objects()
    name = None if policy is None else read_policy(policy, objects)
    if resume is not None:
        refused: dict[str, Any] = {"seed": seed, "rounds": rounds, "settings": settings, "out": out}
        refused |= {"overwrite": overwrite, "branch": branch, **options}
        refused |= {"policy": isinstance(policy, str)}
        path = _resumed(resume, refused, scenario)
        _give_again(path, objects, scenario, model, data)
        with offered(objects.found):
            more = {"callbacks": callbacks, **_address(options)}
            summary = _trained(path, fresh=False, progress=progress, **more)
        return RunResult(path, summary, objects.found)
    change = _Change(scenario, settings, model, data, rounds)
    if branch is not None:
        kind, start = "branch", _new_branch(folder_of(branch), change, name, seed, options, objects)
    else:
        kind, start = "run", _new_run(change, name, seed, options, objects)
    source = None if branch is None else folder_of(branch)
    if source and out is not None and os.path.exists(out) and os.path.samefile(out, source):
        raise InputError(f"`out` {shown(os.fspath(out))}: is the run to branch from; give another")
    with offered(objects.found):
        path = in_folder(kind, start.scenario.name, start, out, overwrite)
        summary = _trained(path, fresh=True, progress=progress, callbacks=callbacks)
    return RunResult(path, summary, objects.found)


def compare(
    scenario: Source | None = None,
    *,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    train: bool = True,
    model: Any = None,
    data: Data | None = None,
    rounds: int | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    callbacks: Sequence[Any] = (),
    progress: bool = True,
    **options: Unpack[TrainingOptions],
) -> ComparisonResult:
    """Train several policies on the same worlds, equal work done once: `fedrt compare`.

    `policies` are names, import paths, classes or objects; by default all shipped ones. Everything
    else is as for `fedrt.run`. With `train=False` nothing is trained: that is `fedrt.estimate`.
    """
    if not train:
        if options or resume is not None:
            refuse_given(
                "train", "no training options", [*options, *(["resume"] if resume else [])]
            )
        return estimate(
            scenario,
            policies=policies,
            seeds=seeds,
            model=model,
            data=data,
            rounds=rounds,
            settings=settings,
            out=out,
            overwrite=overwrite,
            progress=progress,
        )
    objects = Objects()
    names = None if policies is None else read_policies(policies, objects)
    if resume is not None:
        refused: dict[str, Any] = {
            "seeds": seeds,
            "rounds": rounds,
            "settings": settings,
            "out": out,
        }
        refused |= {"policies": isinstance(policies, str) or (names and not objects.found)}
        path = _resumed(resume, refused | {"overwrite": overwrite, **options}, scenario)
        _give_again(path, objects, scenario, model, data)
        with offered(objects.found):
            said = read_comparison(path, _address(options).get("address"), note)
            return _compared(said, objects, callbacks, fresh=False, progress=progress)
    change = _Change(scenario, settings, model, data, rounds)
    names = read_policies(ALL, objects) if names is None else names
    start = _new_comparison(change, names, seeds, options, objects)
    with offered(objects.found):
        said = in_folder("compare", start.scenario.name, start, out, overwrite)
        return _compared(said, objects, callbacks, fresh=True, progress=progress)


@dataclass(frozen=True)
class _Change:
    """The scenario of a call, and what is to be changed in it."""

    scenario: Source | None
    settings: Settings
    model: Any
    data: Data | None
    rounds: int | None

    def of(self, source: Source | None, objects: Objects) -> Scenario:
        """The scenario with the changes."""
        return read_scenario_asked(
            source,
            objects,
            self.settings,
            model=self.model,
            data=self.data,
            rounds=self.rounds,
        )


@dataclass(frozen=True)
class _NewRun:
    """A run that is to be started in a folder."""

    scenario: Scenario
    policy: str
    seed: int
    options: RunOptions
    source: Path | None = None
    """The folder of the run that it branches from."""

    def __call__(self, path: Path) -> Path:
        """Create the folder, complete before heavy libraries are loaded."""
        given, command = (self.scenario, self.policy), command_text("run")
        if self.source is None:
            start_run(path, *given, self.seed, command, self.options)
        else:
            start_branch(self.source, path, *given, self.options, command)
        return path


def _new_run(
    change: _Change,
    policy: str | None,
    seed: int | str | None,
    options: Mapping[str, Any],
    objects: Objects,
) -> _NewRun:
    need("training", "torch")
    scenario = change.of(change.scenario, objects)
    number, name = read_seed(0 if seed is None else seed), policy or "fedrt"
    with offered(objects.found):
        make_policy(name)
    return _NewRun(scenario, name, number, read_options(options, scenario.learning))


@dataclass(frozen=True)
class _NewComparison:
    """A comparison that is to be started in a folder."""

    scenario: Scenario
    policies: list[str]
    seeds: list[int]
    options: RunOptions

    def __call__(self, path: Path) -> Comparison:
        """Create the folder."""
        given = (self.scenario, self.policies, self.seeds, path, self.options)
        return start_comparison(*given, command_text("compare"))


def _new_comparison(
    change: _Change,
    names: list[str],
    seeds: Seeds | None,
    options: Mapping[str, Any],
    objects: Objects,
) -> _NewComparison:
    need("training", "torch")
    asked = change.of(change.scenario, objects)
    numbers = read_seeds(0 if seeds is None else seeds)
    chosen = read_options(options, asked.learning)
    with offered(objects.found):
        for each in names:
            make_policy(each)  # complains before anything is made or overwritten
    return _NewComparison(asked, names, numbers, chosen)


def _new_branch(
    source: Path,
    change: _Change,
    policy: str | None,
    seed: int | str | None,
    options: Mapping[str, Any],
    objects: Objects,
) -> _NewRun:
    given = {"scenario": change.scenario, "seed": seed}
    given_names = [name for name, value in given.items() if value is not None]
    refuse_given("branch", "scenario and seed from its directory", given_names)
    refuse_links(source)
    run = read_run(source)
    if run.options is None:
        raise InputError(f"{source}: is a run without training; there is nothing to branch")
    kept = kept_options(source, run.options)
    asked = read_options(options, run.scenario.learning)
    changed = {
        field.name: getattr(asked, field.name)
        for field in fields(kept)
        if options.get(field.name) not in (None, [], (), False)
    }
    scenario = change.of(source / "config.toml", objects)
    _give_again(source, objects, None, change.model, change.data)
    return _NewRun(scenario, policy or run.policy, run.seed, replace(kept, **changed), source)


def _resumed(resume: Place, given: Mapping[str, Any], scenario: Source | None) -> Path:
    """The folder to resume; it holds all options, so that others may not be given.

    Except where: a cluster may be gone while the run is to go on. A scenario as a value may bring
    the objects that are in it.
    """
    path = folder_of(resume)
    names = ["scenario"] if isinstance(scenario, str | Path) else []
    names += [name for name, value in given.items() if value and name != "address"]
    refuse_given("resume", "everything from its directory", names)
    refuse_links(path)  # before anything in it is read
    return path


def _address(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"address": options.get("address")}


def _give_again(
    path: Path, objects: Objects, scenario: Source | None, model: Any, data: Data | None
) -> None:
    """Put the objects that are given again in the place of those the folder's run was given."""
    if isinstance(scenario, Scenario):
        objects.add_all(scenario)
    if model is None and data is None:
        return
    read_opened(path, "a run directory")
    learning = load_scenario(path / "config.toml").learning
    again_given = []
    if model is not None:
        again_given.append((learning.model, given_path(model)))
    if data is not None:
        again_given.append((learning.dataset, data_path(data)))
    for kept, now in again_given:
        if isinstance(now, GivenPath):
            objects.found[kept] = now.offer


def _trained(
    path: Path,
    *,
    fresh: bool,
    progress: bool,
    callbacks: Sequence[Any],
    address: str | None = None,
) -> Summary:
    """Train the run in a folder to its end."""
    try:
        with gone_unless(path, "records", fresh=fresh):
            rounds = read_run(path).scenario.rounds.global_rounds
        with training_progress(rounds, quiet=not progress) as step:
            return carry_on(path, step, note, fresh=fresh, address=address, callbacks=callbacks)
    except (InputError, UnfinishedError):
        if fresh and path.exists():
            note(f"what was trained before that is in {path}; {_mended(path)}")
        raise
    except KeyboardInterrupt:
        note(f"stopped; go on with: {again('run', path)}")
        raise


def _mended(path: Path) -> str:
    """A sentence on how to continue a run that ended in an error."""
    resume = again("run", path)
    if not resume.endswith("--allow-code"):
        return f"go on with: {resume}"
    return f"once your code is mended, go on in a branch: {resume.replace('--resume', '--branch')}"


def _compared(
    said: Comparison,
    objects: Objects,
    callbacks: Sequence[Any],
    *,
    fresh: bool,
    progress: bool,
) -> ComparisonResult:
    total = len(said.policies) * len(said.seeds) * said.scenario.rounds.global_rounds
    with comparison_progress(total, quiet=not progress) as step:
        try:
            results = go_on(said, step, note, fresh=fresh, callbacks=callbacks)
        except KeyboardInterrupt:
            note(f"stopped; go on with: {again('compare', said.out)}")
            raise
    return ComparisonResult(said.out, said.scenario, results, objects.found)
