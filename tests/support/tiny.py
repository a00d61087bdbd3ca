"""A small scenario for tests, every number that matters given here: 7 devices on 3 servers."""

from __future__ import annotations

from fedrt.scenario import Scenario, load_scenario

SETTINGS = (
    'name="tiny"',
    "fleet.num_edges=3",
    "fleet.num_devices=7",
    "fleet.cluster_sizes=[2,3,2]",
    "fleet.cycles_per_sample=94.2e6",
    "fleet.capacitance={uniform=[2e-30,2e-29]}",
    "fleet.tx_power_w=0.01",
    "fleet.cpu_min_hz=2e9",
    "fleet.cpu_max_hz=3e9",
    "fleet.energy_j_per_edge_round=1.0",
    "rounds={global_rounds=4,edge_rounds=2,local_steps=10,gossip_steps=10}",
    'channel={kind="uniform",low_db=0,high_db=15}',
    'bandwidth={kind="constant",hz=1e6}',
    'backhaul={kind="uniform",low_bps=1e6,high_bps=1e7}',
    'base_graph={kind="complete"}',
    "learning.model_bits=8e6",
    "learning.batch_size=32",
    'control={kappa=0.5,mixing="metropolis",budgets="best-effort",energy_horizon="policy"}',
)


def tiny(*settings: str) -> Scenario:
    """The small scenario with further `key=value` settings."""
    return load_scenario("quickstart", [*SETTINGS, *settings])


def as_options(*settings: str) -> list[str]:
    """The same for the command line."""
    return [word for text in (*SETTINGS, *settings) for word in ("--set", text)]
