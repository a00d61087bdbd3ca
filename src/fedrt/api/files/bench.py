"""`fedrt.bench`: every policy on the bench's fixed worlds, above a bound on the same work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fedrt.api.asked import ALL, Objects, Policies, Seeds, check_list, read_policies, read_seeds
from fedrt.api.folders import Place
from fedrt.api.results import StudyResult
from fedrt.api.studies import TEXT, Request, StudyFolder, policies_text, requested, seeds_text
from fedrt.bench.bounds import FILE, save_bounds
from fedrt.bench.pool import cores
from fedrt.bench.scores import NUMBERS
from fedrt.bench.study import Bench, Step, make_bounds, run_bench
from fedrt.bench.worlds import FOLDER, SEEDS, WORLDS, load_world, read_worlds
from fedrt.errors import InputError
from fedrt.policies import SHIPPED, make_policy
from fedrt.report.page.write import write_page
from fedrt.report.progress import round_progress
from fedrt.studies.sweep import split_words
from fedrt.system.files import gone_unless, write_csv, write_json
from fedrt.system.plugins import offered
from fedrt.validation import Whole

MOST_JOBS = 1024


def bench(
    worlds: Iterable[str] | str | None = None,
    *,
    policies: Policies | None = None,
    seeds: Seeds | None = None,
    bounds: bool = False,
    jobs: int | str | None = None,
    out: Place | None = None,
    overwrite: bool = False,
    resume: Place | None = None,
    progress: bool = True,
) -> StudyResult:
    """Every policy on fixed worlds, in percent above a lower bound: `fedrt bench`.

    No plan of the same work undercuts the bound within the contraction and energy of `fedrt`
    (`fedrt.bound`).

    `worlds` and `policies` are all that come with FedRT unless some are named; among policies `all`
    stands for those, so that `["all", Mine]` adds one. With `bounds` nothing is scored: the bounds
    of the worlds are made anew and put into the package. `jobs` is the number of processes.
    """
    objects = Objects()
    asked: dict[str, Any] = {"worlds": _worlds_text(worlds), "bounds": bounds}
    asked |= {"policies": policies_text(policies, objects)}
    asked |= {"seeds": seeds_text(",".join(map(str, SEEDS)) if seeds is None else seeds)}
    given: dict[str, Any] = {"worlds": worlds, "policies": policies, "seeds": seeds}
    given |= {"bounds": bounds, "out": out, "overwrite": overwrite, "settings": ()}
    like: dict[str, Any] = {"worlds": TEXT, "policies": TEXT, "seeds": TEXT, "bounds": False}
    request = requested("bench", "", asked, given, like, objects, resume)
    with offered(objects.found):
        return _carried_out(request, _read_jobs(jobs), progress)


def _worlds_text(worlds: Iterable[str] | str | None) -> str:
    return ALL if worlds is None else worlds if isinstance(worlds, str) else ",".join(worlds)


def _read_jobs(given: int | str | None) -> int:
    if given is None:
        return cores()
    problems: list[str] = []
    typed = isinstance(given, str) and given.isascii() and given.isdigit()
    number = Whole(1, MOST_JOBS).read(int(given) if typed else given, "`jobs`", problems)
    if number is None:
        raise InputError(problems)
    return number


def _read(request: Request) -> Bench:
    """What is asked for, checked."""
    words = split_words(request.asked["policies"])
    names = [each for word in words for each in (SHIPPED if word == ALL else [word])]
    policies = read_policies(",".join(names), Objects())
    for policy in policies:
        make_policy(policy)
    text = request.asked["worlds"]
    named = [word.strip() for word in text.split(",")]
    worlds = list(WORLDS) if text == ALL else read_worlds(check_list(named, text, "worlds"))
    check_list(worlds, text, "worlds")
    return Bench(tuple(worlds), tuple(policies), tuple(read_seeds(request.asked["seeds"])))


def _carried_out(request: Request, jobs: int, progress: bool) -> StudyResult:
    bench, only_bounds = _read(request), request.asked["bounds"]
    if not only_bounds:
        bench.check()
    if request.resume is None:
        request.source = FOLDER + bench.worlds[0]
    scenarios = [load_world(name) for name in bench.worlds]
    tasks = bench.bound_tasks if only_bounds else bench.tasks
    if not tasks:
        raise InputError(
            f"`bounds`: the worlds {', '.join(bench.worlds)} have none (docs/bench.md)"
        )
    name = bench.worlds[0] if len(bench.worlds) == 1 else "worlds"
    with (
        request.opened(scenarios, bench.policies, {}, name) as study,
        gone_unless(study.out, "bench.json", fresh=study.fresh),
        round_progress(len(tasks), quiet=not progress, lines=True, what="run") as steps,
    ):

        def step(about: str, seed: int) -> None:
            if steps is not None:
                steps(about, seed)(None)

        return (_bounded if only_bounds else _scored)(bench, jobs, study, step)


def _bounded(bench: Bench, jobs: int, study: StudyFolder, step: Step) -> StudyResult:
    """Bounds of the worlds, in the folder and in the package."""
    made = make_bounds(bench, jobs, study.points, step)
    write_json(study.out / "bounds.json", made)
    save_bounds(made)
    rows = [
        {"world": world, "seed": int(seed), **found}
        for world, each in made.items()
        for seed, found in each.items()
    ]
    return StudyResult(study.out, {"bounds": made, "file": str(FILE)}, rows, None, made)


def _scored(bench: Bench, jobs: int, study: StudyFolder, step: Step) -> StudyResult:
    data, speed = run_bench(bench, jobs, study.points, step)
    rows = list(_rows(data))
    write_csv(study.out / "bench.csv", rows)
    write_json(study.out / "speed.json", speed)
    write_json(study.out / "bench.json", data)
    write_page([study.out], study.out / "page.html")
    return StudyResult(study.out, data, rows, None, data)


def _rows(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each world, policy and seed."""
    for world, found in data["worlds"].items():
        for policy, each in found["policies"].items():
            for i, seed in enumerate(data["seeds"]):
                above = each["above"]
                yield {
                    "world": world,
                    "policy": policy,
                    "seed": seed,
                    "against": found["against"],
                    "above": None if above is None else above["per_seed"][i],
                    "other_work": "; ".join(each["other_work"]),
                    **{name: each[name]["per_seed"][i] for name in NUMBERS},
                }
