"""FedRT frozen over whole rounds: its plans on shipped worlds as they were first recorded.

`python tests/policies/test_fedrt_frozen.py` writes the record anew; only a deliberate change of the
paper's method may do so.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from fedrt.policies import make_policy
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.scenario import load_scenario

pytestmark = pytest.mark.numerical

GOLDEN = Path(__file__).parent / "golden_fedrt_rounds.json"
ROUNDS = 4
WORLDS = [
    ("paper/cifar10-iid", ["fleet.energy_j_per_edge_round=1.5"], 0),
    ("paper/cifar10-iid", ["control.energy_horizon=exact"], 1),
    ("paper/femnist", ["fleet.energy_j_per_edge_round=2"], 1),
    ("paper/fmnist-iid", [], 2),
    ("paper/femnist", ["base_graph.kind=ring", "rounds.edge_rounds=1"], 3),
]


def plans_of(name, settings, seed):
    """The first rounds' plans, each array as sums that weigh every entry differently."""
    world = make_world(load_scenario(name, settings), seed)
    rows = []
    for done in islice(simulate_rounds(world, make_policy("fedrt")), ROUNDS):
        for turn in done.edge_rounds:
            plan = turn.plan
            weight = 1.5 + np.cos(np.arange(len(plan.cpu_hz)))
            steps, links = turn.seen.gossip_steps, None
            if plan.gossip is not None:
                steps = plan.gossip.steps
                links = np.argwhere(np.triu(plan.gossip.links)).tolist()
            rows.append(
                {
                    "bandwidth_hz": [float(weight @ plan.bandwidth_hz), *plan.bandwidth_hz[:3]],
                    "cpu_hz": [float(weight @ plan.cpu_hz), *plan.cpu_hz[:3]],
                    "local_steps": int(plan.local_steps.sum()),
                    "gossip_steps": steps,
                    "links": links,
                    "status": plan.status,
                }
            )
    return rows


@pytest.mark.parametrize("case", range(len(WORLDS)))
def test_fedrt_plans_these_rounds_as_it_always_did(case):
    recorded = json.loads(GOLDEN.read_text())[case]
    assert recorded["world"] == list(WORLDS[case])
    plans = plans_of(*WORLDS[case])
    assert len(plans) == len(recorded["plans"])
    for got, expected in zip(plans, recorded["plans"], strict=True):
        for key in ("bandwidth_hz", "cpu_hz"):
            assert got.pop(key) == pytest.approx(expected.pop(key), rel=1e-12, abs=0)
        assert got == expected


if __name__ == "__main__":
    records = [{"world": world, "plans": plans_of(*world)} for world in WORLDS]
    GOLDEN.write_text(json.dumps(records, indent=1) + "\n")
