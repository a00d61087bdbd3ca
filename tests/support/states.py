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


LAWS = {
    "block_hz": 15e3,
    "power_control": True,
    "header_factor": 1.25,
    "round_trip_s": 0.05,
    "aggregation_s": 0.4,
    "download_bits": 5.6e6,
    "cpu_tables": {"phone": {"hz": [1e9, 2e9, 3e9], "power_w": [0.5, 1.2, 2.7]}},
}
"""Every field of a state beyond the paper's physical layer."""
DEVICE_LAWS = {
    "cn0_hz": 1e6,
    "downlink_bps": 7e6,
    "rx_power_w": 0.2,
    "idle_power_w": 0.01,
    "cpu_table": "phone",
}
"""The same of a device, which then has no `snr_db`."""


def state_under_laws(seed=0):
    """A state of schema version 2 with every law."""
    state = random_state(seed) | {"schema_version": 2} | LAWS
    for edge in state["edges"]:
        edge["devices"] = [
            {name: value for name, value in device.items() if name != "snr_db"} | DEVICE_LAWS
            for device in edge["devices"]
        ]
    return state


def decide(state, name):
    """The plan object and the observation behind it."""
    checked = read_state(state)
    return make_policy(name).plan(checked.seen, checked.books), checked
