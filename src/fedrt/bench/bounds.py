"""The bounds of the bench's worlds, made once and kept in the package with digests of the worlds.

`fedrt bench --bounds` makes them anew. A bound whose world has changed since is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrt.bench.outcomes import bench_world
from fedrt.bench.worlds import WORLDS, load_world, world_digest
from fedrt.errors import InputError, reason
from fedrt.scenario import Scenario
from fedrt.studies.bound import bound_world, scenario_limit
from fedrt.system.files import write_json
from fedrt.system.inputs import parse_json, read_text

FILE = Path(__file__).parent / "data" / "bounds.json"

Bounds = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By world and seed: `time_s`, `digest` and what the bound rests on."""


def make_bound(name: str, seed: int) -> dict[str, Any]:
    """The bound of a world of a seed, with the digest of the world."""
    at = bench_world(name, seed)
    scenario = at.world.scenario
    found = bound_world(at.world, at.distances, at.reference, scenario_limit(scenario))
    return {
        "digest": world_digest(load_world(name), seed),
        "time_s": found.time_s,
        "rho_mean": None if found.rho is None else float(found.rho.mean()),
        "raised_devices": found.raised_devices,
        "open_rounds": found.open_rounds,
    }


def read_bounds(file: Path = FILE) -> Bounds:
    """The bounds that come with the package."""
    try:
        found: Bounds = parse_json(read_text(file))["worlds"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from None
    return found


def kept_bound(bounds: Bounds, name: str, seed: int, scenario: Scenario) -> float | None:
    """The bound of a world of a seed in seconds; None if none was made.

    An error if it is that of another world.
    """
    found = bounds.get(name, {}).get(str(seed))
    if found is None:
        return None
    if found["digest"] != world_digest(scenario, seed):
        raise InputError(
            f"bench world {name}, seed {seed}: has changed since its bound was made; make it anew"
            " with `bounds`"
        )
    return float(found["time_s"])


def save_bounds(made: Bounds, file: Path = FILE) -> None:
    """Put bounds into the package's file, in the place of those of the same worlds and seeds."""
    kept = read_bounds(file)
    worlds = {
        name: dict(sorted({**kept.get(name, {}), **made.get(name, {})}.items()))
        for name in WORLDS
        if name in kept or name in made
    }
    write_json(file, {"made_by": "fedrt bench --bounds", "worlds": worlds})
