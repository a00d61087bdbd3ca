"""What each law of the physical layer does to the times of the paper's presets, without training.

    python benchmarks/law_effects.py --save benchmarks/results/law_effects.json

Whole runs of `fedrt`, which plans with the law; and of plans that are made as in the paper and meet
the law when they are carried out: with the SNR of an even share of the bandwidth, or with shares of
the bandwidth that are then rounded to whole blocks. docs/deviations.md shows the figures.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save, start_environment

from fedrt.api.asked import read_seeds
from fedrt.cli import guarded
from fedrt.ledger import Books
from fedrt.plan import Plan
from fedrt.policies.fedrt import FedRT
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate
from fedrt.world.observation import Observation

AMPLE = ("fleet.energy_j_per_edge_round=2.0",)
"""With the paper's budgets most clusters of CIFAR-10 and FEMNIST are infeasible, and a law that
raises what the best effort takes lets it spend more; with these all are feasible."""
PRESETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cifar10-iid": ("paper/cifar10-iid", ()),
    "fmnist-iid": ("paper/fmnist-iid", ()),
    "femnist": ("paper/femnist", ()),
    "cifar10-iid, 2 J": ("paper/cifar10-iid", AMPLE),
    "femnist, 2 J": ("paper/femnist", AMPLE),
}
KEYS = ("total_time_s", "energy_j_mean", "over_budget_j", "over_budget_devices", "time_parts")
NOISE = ("channel.law=noise-density", f"channel.reference_hz={1e6 / 9}")
"""The paper's SNRs are taken to be those over an even share: 9 devices on 1 MHz."""
FIXED, ROUNDED = "law_effects:FixedSnr", "law_effects:RoundedBlocks"
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "paper": ((), ("fedrt",)),
    "noise density": (NOISE, ("fedrt", FIXED)),
    "power control": ((*NOISE, "channel.power_control=true"), ("fedrt",)),
    "blocks of 15 kHz": (("bandwidth.block_hz=15e3",), ("fedrt", ROUNDED)),
    "downlink, 0.01 W": (("downlink={tx_power_w=0.01}",), ("fedrt",)),
    "downlink, 1 W": (("downlink={tx_power_w=1.0}",), ("fedrt",)),
    "headers of 5 %": (("overheads={header_factor=1.05}",), ("fedrt",)),
    "latency of 50 ms": (("overheads={round_trip_s=0.05}",), ("fedrt",)),
    "idle power of 10 mW": (("fleet.idle_power_w=0.01",), ("fedrt",)),
}


class FixedSnr(FedRT):
    """FedRT with plans for the SNR of an even share, as if it stayed the same over any share."""

    name = "fixed-snr-plan"

    def plan(self, seen: Observation, books: Books) -> Plan:
        """The plan of FedRT without the law."""
        plan = super().plan(replace(seen, laws=replace(seen.laws, cn0_hz=None)), books)
        return replace(plan, status="feasible")


class RoundedBlocks(FedRT):
    """FedRT with shares of the bandwidth that are rounded to whole blocks."""

    name = "rounded-plan"

    def plan(self, seen: Observation, books: Books) -> Plan:
        """The plan of FedRT without blocks, rounded by largest remainders, one block at least."""
        block_hz = seen.laws.block_hz
        assert block_hz is not None
        plan = super().plan(replace(seen, laws=replace(seen.laws, block_hz=None)), books)
        hz = plan.bandwidth_hz.copy()
        for c in range(seen.num_edges):
            mine = slice(int(seen.first_device[c]), int(seen.first_device[c + 1]))
            blocks = hz[mine] / block_hz
            whole = np.maximum(np.floor(blocks), 1.0)
            spare = int(np.floor(seen.edge_bandwidth_hz[c] / block_hz) - whole.sum())
            for _ in range(-spare):  # a block for everybody may be more than there are
                whole[np.argmax(whole)] -= 1
            whole[np.argsort(whole - blocks)[: max(spare, 0)]] += 1
            hz[mine] = whole * block_hz
        return replace(plan, status="feasible", bandwidth_hz=hz)


def main() -> int:
    """Run every case and save it; the exit code."""
    return guarded(run)


def run() -> int:
    """Run every case and save it."""
    parser = argparse.ArgumentParser(description="laws of the physical layer, without training")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    seeds = read_seeds(args.seeds)
    data: dict[str, Any] = {"command": " ".join(sys.argv), "seeds": seeds}
    data |= {"environment": start_environment(), "cases": {}}
    for case, (settings, policies) in CASES.items():
        own = data["cases"].setdefault(case, {"settings": list(settings)})
        for preset, (source, budget) in PRESETS.items():
            scenario = load_scenario(source, (*budget, *settings))
            results = estimate(scenario, policies, seeds)
            own[preset] = {
                name.rpartition(":")[2]: {key: [each[key] for each in runs] for key in KEYS}
                for name, runs in results.items()
            }
            print(f"{case}: {preset}: {_said(data['cases'], own[preset], preset)}", flush=True)
            save(args.save, data)
    return 0


def _said(cases: dict[str, Any], own: dict[str, Any], preset: str) -> str:
    """The times of the policies, and by how much they are more than the paper's."""
    paper_s = sum(cases["paper"][preset]["fedrt"]["total_time_s"])
    times = {name: sum(runs["total_time_s"]) for name, runs in own.items()}
    return ", ".join(f"{name} {100 * (s / paper_s - 1):+.2f} %" for name, s in times.items())


if __name__ == "__main__":
    sys.exit(main())
