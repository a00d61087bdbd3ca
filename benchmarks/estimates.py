"""Whole runs of the paper's presets without training, and what other choices would change.

    python benchmarks/estimates.py --save benchmarks/results/estimates.json

Total time, mean energy and overspend of each policy on each seed: the figures in
docs/deviations.md and the distance to the paper's times in the README.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from provenance import save, start_environment

from fedrt.api.asked import read_seeds
from fedrt.cli import guarded
from fedrt.experiments.paper import METHODS
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate

PRESETS = ("cifar10-iid", "fmnist-iid", "femnist")
EXACT_LINKS = "fedrt.policies.fedrt_plus:exact_links"
KEYS = ("total_time_s", "energy_j_mean", "over_budget_j", "over_budget_devices")


def cases() -> dict[str, dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]]:
    """By choice and preset: the scenario, its changed settings and the policies to run."""
    every: dict[str, dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
        "as shipped": {p: (f"paper/{p}", (), (*METHODS, EXACT_LINKS)) for p in PRESETS},
        "true horizon": {
            p: (f"paper/{p}", ('control.energy_horizon="exact"',), ("fedrt",)) for p in PRESETS
        },
        "backhaul as printed": {
            "cifar10-iid": ("paper-literal/cifar10-iid", (), ("fedrt", "ce-fedavg"))
        },
    }
    for kappa in (0, 1):
        every[f"kappa {kappa}"] = {
            p: (f"paper/{p}", (f"control.kappa={kappa}",), ("fedrt",))
            for p in ("cifar10-iid", "femnist")
        }
    return every


def main() -> int:
    """Run every case and save it; the exit code."""
    return guarded(run)


def run() -> int:
    """Run every case and save it."""
    parser = argparse.ArgumentParser(description="the paper's presets without training")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    seeds = read_seeds(args.seeds)
    data: dict[str, Any] = {"command": " ".join(sys.argv), "seeds": seeds}
    data |= {"environment": start_environment(), "cases": {}}
    for choice, presets in cases().items():
        own = data["cases"].setdefault(choice, {})
        for preset, (scenario, settings, policies) in presets.items():
            results = estimate(load_scenario(scenario, settings), policies, seeds)
            own[preset] = {
                name.rpartition(":")[2]: {key: [each[key] for each in runs] for key in KEYS}
                for name, runs in results.items()
            }
            hours = {
                name: sum(v["total_time_s"]) / len(seeds) / 3600 for name, v in own[preset].items()
            }
            said = ", ".join(f"{name} {value:.2f} h" for name, value in hours.items())
            print(f"{choice}: {preset}: {said}", flush=True)
            save(args.save, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
