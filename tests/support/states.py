"""States of one round, drawn at random, and what the policies do in them."""

from __future__ import annotations

import numpy as np

from fedrt.decision import read_state
from fedrt.policies import make_policy

EVEN = ("static-r", "ce-fedavg", "mll-sgd")


def random_state(seed, *, edges=5, devices=4, budget=1.0, backhaul=True):
    """A state in the shape of the contract, near the paper's numbers."""
    rng = np.random.default_rng(seed)

    def device():
        return {
            "cycles": 1.248e9 * rng.uniform(0.5, 8),
            "snr_db": rng.uniform(0, 15),
            "tx_power_w": 0.01,
            "capacitance": 2e-28 * rng.uniform(0.01, 0.1),
            "cpu_min_hz": 1e9,
            "cpu_max_hz": 3e9,
            "energy_allowance_j": budget * rng.uniform(0.75, 1.25),
        }

    state = {
        "model_bits": 1.4e7,
        "local_steps": 10,
        "gossip_steps": 10,
        "edges": [
            {
                "bandwidth_hz": 1e6,
                "elapsed_s": rng.uniform(0, 60),
                "devices": [device() for _ in range(devices)],
            }
            for _ in range(edges)
        ],
    }
    if backhaul:
        bps = np.triu(rng.uniform(1e6, 1e7, (edges, edges)), 1)
        distance = np.triu(1 + 0.3 * rng.uniform(size=(edges, edges)), 1)
        state["backhaul_bps"] = (bps + bps.T).tolist()
        state["consensus_distance"] = (distance + distance.T).tolist()
        state["consensus_limit"] = float(distance.sum() / edges**2)
    return state


def decide(state, name):
    """The plan object and the observation behind it."""
    checked = read_state(state)
    return make_policy(name).plan(checked.seen, checked.books), checked
