"""`fedrt.size` and `fedrt.bound`: what meets a deadline, and a lower bound on a run's time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from fedrt.api.asked import (
    Objects,
    Policies,
    PolicyLike,
    Seeds,
    Settings,
    folder_of,
    read_policies,
    read_policy,
    read_seeds,
)
from fedrt.api.folders import Place
from fedrt.api.results import StudyResult
from fedrt.api.studies import (
    TEXT,
    Request,
    Vary,
    policies_text,
    requested,
    seeds_text,
    source_of,
    vary_texts,
)
from fedrt.bound.distances import recorded_distances, stand_in_distances
from fedrt.errors import InputError
from fedrt.policies import make_policy
from fedrt.records.directory import read_run
from fedrt.report.figures import size_figure
from fedrt.report.progress import round_progress, say_without_terminal
from fedrt.runs.loop import make_world
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import Source
from fedrt.studies.bound import (
    REFERENCE,
    BoundResult,
    bound_data,
    compare_to_bound,
    scenario_limit,
)
from fedrt.studies.size_answer import answer_label, save_size, size_data, unreachable
from fedrt.studies.sizing import Sizing, policy_at
from fedrt.studies.sizing import size as search_size
from fedrt.studies.span import fit_span, read_span
from fedrt.system.files import gone_unless, write_json
from fedrt.system.plugins import offered
from fedrt.units import read_duration, readable_time
from fedrt.validation import shown


def size(
    scenario: Source | None = None,
    *,
    deadline: str | float | None = None,
    vary: Vary = (),
    policy: PolicyLike | None = None,
    find: Literal["least", "greatest"] | None = None,
    allow_overspend: bool = False,
    seeds: Seeds | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    progress: bool = True,
) -> StudyResult:
    """The least or greatest value of a setting that meets a deadline: `fedrt size`.

    `deadline` is a text such as `1h30m`, or seconds. `vary` is a setting and its range,
    `{"bandwidth.scale": "0.5..8"}` or `{"bandwidth.scale": (0.5, 8)}`. `policy` is `fedrt-plus`
    unless another is given. Where no value will do, `data["value"]` is None.
    """
    objects = Objects()
    source = source_of(scenario, objects, resume)
    name = "fedrt-plus" if policy is None else read_policy(policy, objects)
    limit = f"{deadline!r}s" if isinstance(deadline, int | float) else deadline or ""
    asked: dict[str, Any] = {"deadline": limit, "vary": _range_texts(vary), "policy": name}
    asked |= {"seeds": seeds_text(seeds), "find": find, "allow_overspend": allow_overspend}
    given: dict[str, Any] = {
        "scenario": scenario,
        "deadline": deadline,
        "vary": vary,
        "policy": policy,
    }
    given |= {"seeds": seeds, "find": find, "allow_overspend": allow_overspend}
    given |= {"settings": settings, "out": out, "overwrite": overwrite}
    like: dict[str, Any] = {"deadline": TEXT, "vary": [], "policy": TEXT, "seeds": TEXT}
    like |= {"find": {None, "least", "greatest"}, "allow_overspend": False}
    request = requested("size", source, asked, given, like, objects, resume)
    with offered(objects.found):
        return _sized(request, progress)


def _range_texts(vary: Vary) -> list[str]:
    """The varied setting and its range as a text."""
    if isinstance(vary, dict):
        ends = {
            key: value if isinstance(value, str) else "..".join(repr(end) for end in value)
            for key, value in vary.items()
        }
        return vary_texts(ends)
    return vary_texts(vary)


def _sized(request: Request, progress: bool) -> StudyResult:
    asked, policy = request.asked, request.asked["policy"]
    deadline_s, seeds = read_duration(asked["deadline"], "`deadline`"), read_seeds(asked["seeds"])
    span, scenario = fit_span(read_span(asked["vary"]), request.source, request.settings)
    make_policy(policy_at(span, policy, span.low))
    with request.opened([scenario], [policy], {"vary": asked["vary"]}) as study:
        with (
            gone_unless(study.out, "size.json", fresh=study.fresh),
            round_progress(None, quiet=not progress) as step,
        ):
            found = search_size(
                request.source,
                span,
                deadline_s,
                policy,
                seeds,
                request.settings,
                step,
                wanted=asked["find"],
                overspend=asked["allow_overspend"],
                kept=study.points,
            )
            if found.best.problem is not None:  # nothing has run
                raise unreachable(found)
        save_size(study.out, found, policy, scenario.name, seeds)
    label, data = answer_label(found, policy), size_data(found, policy, scenario.name)
    return StudyResult(
        study.out,
        data,
        [_tried_row(found, each) for each in data["tried"]],
        lambda: size_figure(found, label, scenario.name),
        (found, label, seeds),
    )


def _tried_row(found: Sizing, tried: dict[str, Any]) -> dict[str, Any]:
    """One value that was tried as a row of numbers, means over seeds."""
    means = {
        name: value["mean"] if isinstance(value, dict) else value for name, value in tried.items()
    }
    return {found.span.key: means.pop("value"), **means}


def bound(
    scenario: Source | None = None,
    *,
    run: Any = None,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    rho: float | str | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    progress: bool = True,
) -> StudyResult:
    """A lower bound on a run's time, and how far above it each policy is: `fedrt bound`.

    No plan of the same work undercuts it: one that trains the scenario's local steps on every
    device that takes part, keeps the consensus limit, leaves no more of the models' distances in
    any round than `rho`, by default what `fedrt` leaves, and spends no more on any device than its
    budget, or than `fedrt` where that cannot keep it. Plans of other work may be quicker.

    `run` is a result or a folder whose scenario, seed and distances are taken. `rho` is the most
    that a round's mixing may leave of the distances, or `"none"`.
    """
    objects = Objects()
    source = source_of(scenario, objects, resume, run)
    directory = None if run is None else os.path.abspath(folder_of(run))
    text = rho if rho is None or isinstance(rho, str) else repr(float(rho))
    names = policies_text(policies, objects)
    asked: dict[str, Any] = {"directory": directory, "policies": names, "rho": text}
    asked |= {"seeds": None if seeds is None else seeds_text(seeds)}
    given: dict[str, Any] = {"scenario": scenario, "directory": directory, "seeds": seeds}
    given |= {"policies": policies, "rho": rho, "settings": settings, "out": out}
    given |= {"overwrite": overwrite}
    like: dict[str, Any] = {"directory": ({None}, TEXT), "policies": TEXT, "seeds": ({None}, TEXT)}
    like |= {"rho": ({None}, TEXT)}
    request = requested("bound", source, asked, given, like, objects, resume)
    with offered(objects.found):
        chosen, numbers = _bound_worlds(request, given)
        return _bounded(request, chosen, numbers, progress)


def _bounded(request: Request, scenario: Scenario, seeds: list[int], progress: bool) -> StudyResult:
    policies = read_policies(request.asked["policies"], Objects())
    rho = read_rho(request.asked["rho"])
    rho = scenario_limit(scenario) if rho == "" else rho
    names = policies if REFERENCE in policies else [*policies, REFERENCE]
    total = len(names) * len(seeds) * scenario.rounds.global_rounds
    directory, results = request.asked["directory"], list[BoundResult]()
    with (
        request.opened([scenario], policies, {}) as study,
        gone_unless(study.out, "bound.json", fresh=study.fresh),
        round_progress(total, quiet=not progress, lines=True) as steps,
    ):
        for seed in seeds:
            world = make_world(scenario, seed)
            if directory is None:
                distances = stand_in_distances(world)
            else:
                distances = recorded_distances(Path(directory), world)
            step = steps("policies", seed) if steps is not None else None
            results.append(compare_to_bound(world, distances, policies, rho, step, study.points))
            if steps is not None:
                least = readable_time(results[-1].bound.time_s)
                say_without_terminal(
                    f"seed {seed}: no plan within the limits takes less than {least}"
                )
        data = bound_data(scenario.name, results)
        write_json(study.out / "bound.json", data)
    rows = [
        {
            "policy": each.own_name or each.policy,
            "seed": result.seed,
            "total_time_s": each.time_s,
            "bound_s": result.bound_of(each).time_s,
            "above_bound": result.above(each),
        }
        for result in results
        for each in result.runs
    ]
    return StudyResult(study.out, data, rows, None, (scenario, results))


def _bound_worlds(request: Request, given: dict[str, Any]) -> tuple[Scenario, list[int]]:
    """The scenario and the seeds to bound: those of a run, or as given."""
    directory = request.asked["directory"]
    if directory is not None:
        others = [given["scenario"], given["seeds"], *request.settings]
        if request.resume is None and any(word is not None for word in others):
            raise InputError(
                f"`directory` {shown(directory)}: brings its own scenario and seed; leave out"
                " `scenario`, `seeds` and `settings`"
            )
        saved = read_run(Path(directory))
        scenario, seeds = saved.scenario, [saved.seed]
        if request.resume is None:
            request.source = Path(directory) / "config.toml"
    else:
        scenario = load_scenario(request.source, request.settings)
        seeds = read_seeds(request.asked["seeds"] or "0")
    if scenario.faults is not None:
        raise InputError("scenario.faults: the bound is for fleets that do not fail; leave it out")
    return scenario, seeds


def read_rho(text: str | None) -> float | str | None:
    """A number from 0 to 1, None for `none`, or an empty text if nothing was given."""
    if text is None:
        return ""
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"`rho` {shown(text)}: must be a number from 0 to 1, or none")
    return value
