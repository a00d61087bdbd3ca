"""`fedrt.estimate`, `fedrt.sweep` and `fedrt.front`: whole runs without training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fedrt.api.asked import (
    ALL,
    Objects,
    Policies,
    Seeds,
    Settings,
    read_policies,
    read_scenario_asked,
    read_seeds,
)
from fedrt.api.data import Data
from fedrt.api.folders import Place, in_folder
from fedrt.api.results import ComparisonResult, StudyResult
from fedrt.api.session import command_text, note
from fedrt.api.studies import (
    TEXT,
    Request,
    StudyFolder,
    Vary,
    policies_text,
    requested,
    seeds_text,
    source_of,
    vary_texts,
)
from fedrt.records.summary import Summary
from fedrt.report.figures import front_figure, sweep_figure
from fedrt.report.progress import round_progress
from fedrt.scenario.load import Source
from fedrt.studies import estimates
from fedrt.studies import front as fronts
from fedrt.studies.front import front_data, front_points, save_front
from fedrt.studies.labels import labelled_sweep
from fedrt.studies.sweep import (
    PointResults,
    Sweep,
    plan_sweep,
    read_vary,
    run_sweep,
    save_sweep,
    sweep_data,
    sweep_rows,
)
from fedrt.system.files import gone_unless
from fedrt.system.plugins import offered


def estimate(
    scenario: Source | None = None,
    *,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    model: Any = None,
    data: Data | None = None,
    rounds: int | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    device_rows: bool | None = None,
    progress: bool = True,
) -> ComparisonResult:
    """How long training takes and what it costs, without training: `fedrt estimate`.

    As `fedrt.compare`, with the cost model and stand-in distances between models. `device_rows`
    says whether to keep a row per device and edge round; the default is up to 1,000 devices.
    """
    objects = Objects()
    asked = read_scenario_asked(scenario, objects, settings, model=model, data=data, rounds=rounds)
    names = read_policies(ALL if policies is None else policies, objects)
    numbers = read_seeds(0 if seeds is None else seeds)
    total = len(names) * len(numbers) * asked.rounds.global_rounds
    with offered(objects.found), round_progress(total, quiet=not progress) as step:

        def run_in(path: Path) -> tuple[Path, dict[str, list[Summary]]]:
            command = command_text("estimate")
            return path, estimates.estimate(
                asked,
                names,
                numbers,
                path,
                command=command,
                device_rows=device_rows,
                progress=step,
                note=lambda line: note(f"note: {line}"),
            )

        path, results = in_folder("estimate", asked.name, run_in, out, overwrite)
    return ComparisonResult(path, asked, results, objects.found)


def sweep(
    scenario: Source | None = None,
    *,
    vary: Vary = (),
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    progress: bool = True,
) -> StudyResult:
    """An estimate for every combination of varied settings: `fedrt sweep`.

    `vary` is a table of settings and their values, `{"bandwidth.scale": [1, 2, 4]}`, or texts as
    the command line takes them.
    """
    objects = Objects()
    source = source_of(scenario, objects, resume)
    asked: dict[str, Any] = {"vary": vary_texts(vary)}
    asked |= {"policies": policies_text(policies, objects), "seeds": seeds_text(seeds)}
    given: dict[str, Any] = {
        "scenario": scenario,
        "vary": vary,
        "seeds": seeds,
        "settings": settings,
    }
    given |= {"policies": policies, "out": out, "overwrite": overwrite}
    like: dict[str, Any] = {"vary": [], "policies": TEXT, "seeds": TEXT}
    request = requested("sweep", source, asked, given, like, objects, resume)
    with offered(objects.found):
        planned = _planned(request, read_vary(request.asked["vary"]))
        with _opened(request, planned) as study:
            save = partial(save_sweep, study.out, planned)
            outcomes = _carried_out(study, "sweep.json", planned, save, progress)
    shown = labelled_sweep(planned, outcomes)
    rows = list(sweep_rows(shown[1]))
    return StudyResult(
        study.out,
        sweep_data(planned, outcomes),
        rows,
        lambda: sweep_figure(*shown),
        (planned, outcomes),
    )


def front(
    scenario: Source | None = None,
    *,
    budgets: Iterable[float] | str | None = None,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    settings: Settings = (),
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    progress: bool = True,
) -> StudyResult:
    """Time against energy over energy budgets: `fedrt front`.

    `budgets` are in joules per edge round; by default nine from 0.5 to 4 times the scenario's own.
    Where devices have different budgets these are scaled together, by as much.
    """
    objects = Objects()
    source = source_of(scenario, objects, resume)
    text = budgets if budgets is None or isinstance(budgets, str) else _numbers_text(budgets)
    asked: dict[str, Any] = {"budgets": text}
    asked |= {"policies": policies_text(policies, objects), "seeds": seeds_text(seeds)}
    given: dict[str, Any] = {
        "scenario": scenario,
        "budgets": budgets,
        "seeds": seeds,
        "settings": settings,
    }
    given |= {"policies": policies, "out": out, "overwrite": overwrite}
    like: dict[str, Any] = {"budgets": ({None}, TEXT), "policies": TEXT, "seeds": TEXT}
    request = requested("front", source, asked, given, like, objects, resume)
    with offered(objects.found):
        vary = fronts.varied_budgets(request.asked["budgets"], request.source, request.settings)
        planned = _planned(request, vary)
        with _opened(request, planned) as study:
            save = partial(save_front, study.out, planned)
            outcomes = _carried_out(study, "front.json", planned, save, progress)
    shown, renamed = labelled_sweep(planned, outcomes)
    points = front_points(renamed)
    return StudyResult(
        study.out,
        front_data(planned, outcomes),
        [asdict(point) for point in points],
        lambda: front_figure(shown, points),
        (shown, points),
    )


def _planned(request: Request, vary: Any) -> Sweep:
    policies = read_policies(request.asked["policies"], Objects())
    seeds = read_seeds(request.asked["seeds"])
    return plan_sweep(request.source, vary, policies, seeds, request.settings)


def _opened(request: Request, planned: Sweep) -> Any:
    scenarios = [point.scenario for point in planned.points]
    return request.opened(scenarios, planned.policies, {"vary": planned.vary})


def _carried_out(
    study: StudyFolder, sign: str, planned: Sweep, save: Any, progress: bool
) -> list[PointResults]:
    with (
        gone_unless(study.out, sign, fresh=study.fresh),
        round_progress(planned.rounds, quiet=not progress) as step,
    ):
        return run_sweep(planned, save, step, study.points)


def _numbers_text(values: Iterable[float]) -> str:
    return ",".join(repr(float(value)) for value in values)
