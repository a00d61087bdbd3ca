"""`fedrt.estimate`: whole runs without training."""

from __future__ import annotations

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
from fedrt.api.results import ComparisonResult
from fedrt.api.session import command_text
from fedrt.records.summary import Summary
from fedrt.report.progress import round_progress
from fedrt.scenario.load import Source
from fedrt.studies import estimates
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
            )

        path, results = in_folder("estimate", asked.name, run_in, out, overwrite)
    return ComparisonResult(path, asked, results, objects.found)
