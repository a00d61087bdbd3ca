"""The bench's worlds: scenarios under `bench/` that come with FedRT, each with the same seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from fedrt.bound.link_choices import MOST_SERVERS
from fedrt.errors import InputError
from fedrt.scenario import Scenario, load_scenario
from fedrt.scenario.load import PRESETS
from fedrt.scenario.tables.fields import table_of, unknown_name

FOLDER = "bench/"
WORLDS = (
    *("paper-cifar10", "paper-fmnist", "paper-femnist", "tight-budgets", "loose-budgets"),
    *("ring", "sparse", "correlated", "traced", "uneven", "participation"),
    *("noise-density", "downlink", "digits", "faults", "city"),
)
"""The names of the worlds, in the order of the table; `bench/NAME` is the scenario."""
SEEDS = (0, 1, 2)


def read_worlds(words: Sequence[str]) -> list[str]:
    """The names of worlds, with or without `bench/` in front; an error about unknown ones."""
    names = [word.removeprefix(FOLDER) for word in words]
    unknown = [name for name in names if name not in WORLDS]
    if unknown:
        known = ", ".join(WORLDS)
        raise InputError(
            f"{unknown_name('the world', each, list(WORLDS))}: one of {known}" for each in unknown
        )
    return names


def load_world(name: str) -> Scenario:
    """The scenario of a world."""
    return load_scenario(FOLDER + name)


def why_no_bound(scenario: Scenario) -> str | None:
    """Why there is no bound of a world that its policies could be scored against; None if so."""
    if scenario.faults is not None:
        return "the bound is for fleets that do not fail"
    if scenario.fleet.num_edges > MOST_SERVERS:
        return f"beyond {MOST_SERVERS} edge servers the bound is loose"
    return None


def world_digest(scenario: Scenario, seed: int) -> str:
    """A digest of everything that a world is drawn from: its settings, its traces and its seed.

    The same wherever the package is installed: a file counts by what is in it.
    """
    table = _without_paths(table_of(scenario))
    text = json.dumps([table, seed], sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _without_paths(table: object) -> object:
    """A table with the contents' digest in the place of every file that comes with FedRT."""
    if isinstance(table, dict):
        return {key: _without_paths(value) for key, value in table.items()}
    if isinstance(table, str) and table.startswith(str(PRESETS.resolve())):
        return blake2b(Path(table).read_bytes(), digest_size=16).hexdigest()
    return table
