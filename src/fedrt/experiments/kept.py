"""Saved cells: small files from which all results of a trained cell can be computed.

Planning is cheap and needs of the training only the distances between the edge models. So a kept
cell holds those, and what training alone can tell: losses, accuracies. Times, energies and links
follow from them; the file holds times and energies too, so that pictures need no planning.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import FedrtError, InputError, reason
from fedrt.experiments.cells import Cell
from fedrt.graph import links_of
from fedrt.messages import LADDER
from fedrt.policies import make_policy
from fedrt.records.directory import run_name
from fedrt.rounds import key_after_gossip, key_after_training
from fedrt.runs.executor import Recorded
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario, read_scenario, scenario_text
from fedrt.system.files import write_whole
from fedrt.system.inputs import refuse_zip_bomb
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

FORMAT_VERSION = 1
PLANNED = ("ends_at_s", "energy_j_mean")
LEARNED = (
    "loss",
    "accuracy",
    "edge_accuracy_mean",
    "edge_accuracy_min",
    "edge_accuracy_max",
    "consensus",
    "wall_s",
)
SHORT = ("loss", "consensus", "wall_s")
"""Kept in float32: nothing is decided by their last digits."""
AGREES = 1e-9
"""Relative difference up to which a time or energy computed again is the same."""


@dataclass(frozen=True)
class Kept:
    """A saved cell."""

    about: dict[str, Any]
    """Cell, policy, seed, the whole scenario as text, and where and how it was trained."""
    rounds: dict[str, FloatArray]
    """A value for each global round; accuracies are NaN between evaluations."""
    distance: FloatArray
    """What the coordinator believed of each link of the base graph, (rounds, links)."""
    keys: NDArray[np.uint64]
    """After each global round, what led to its models: equal keys mean equal training."""
    stepped_up: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    """Devices whose codecs were stepped up, as in `Recorded`."""

    @property
    def best_accuracy(self) -> float:
        return float(np.nanmax(self.rounds["accuracy"]))

    @property
    def time_s(self) -> float:
        return float(self.rounds["ends_at_s"][-1])

    @property
    def energy_j(self) -> float:
        return float(self.rounds["energy_j_mean"][-1])

    def first_reached(self, accuracy: float) -> tuple[float, float] | None:
        """The time and energy of the first evaluation at or above an accuracy; None if none was."""
        there = np.flatnonzero(self.rounds["accuracy"] >= accuracy)
        if not there.size:
            return None
        first = int(there[0])
        return float(self.rounds["ends_at_s"][first]), float(self.rounds["energy_j_mean"][first])


def keep_run(cell: Cell, run: Path, about: dict[str, Any]) -> Kept:
    """The saved form of a cell's finished run, checked by planning it again."""
    from pyarrow import parquet

    table = parquet.read_table(run / "rounds.parquet")
    rounds = {name: table[name].to_numpy().astype(np.float64) for name in (*PLANNED, *LEARNED)}
    count = len(table)
    links = parquet.read_table(run / "links.parquet", columns=["distance"])
    exact = links["distance"].to_numpy().reshape(count, -1)
    scenario = cell.column.load()
    text = scenario_text(scenario)
    whole = {"cell": cell.name, "policy": cell.policy, "seed": cell.seed, "scenario": text, **about}
    stepped_up = _stepped_up(run)
    # A part of the digits nearly always gives the same plans, and then they are enough.
    for digits in (np.float16, np.float32, np.float64):
        distance = exact.astype(digits).astype(np.float64)
        if not np.isfinite(distance).all():
            continue
        kept = Kept(whole, rounds, distance, np.zeros(0, np.uint64), stepped_up)
        planned = plan_again(cell, scenario, kept)
        if planned is not None:
            return replace(kept, keys=planned)
    raise FedrtError(f"{run}: planning it again gives other times than were recorded")


def _stepped_up(run: Path) -> NDArray[np.int64]:
    """The devices whose codecs were stepped up in a run, from its summary."""
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    found = summary.get("stepped_up", {"count": 0, "named": []})
    if found["count"] != len(found["named"]):
        raise FedrtError(f"{run}: more devices were stepped up than its summary names")
    rows = [
        (each["global_round"], each["edge_round"], each["device"], LADDER.index(each["to"]))
        for each in found["named"]
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def plan_again(cell: Cell, scenario: Scenario, kept: Kept) -> NDArray[np.uint64] | None:
    """The keys of the cell's rounds; None if times or energies differ from the saved ones."""
    keys = []
    for done, key in replay(make_world(scenario, cell.seed), cell.policy, kept):
        t = done.last.t
        recorded = np.array([kept.rounds[name][t] for name in PLANNED])
        found = np.array([done.ends_at_s, done.last.after.spent_j.mean()])
        if not np.allclose(found, recorded, rtol=AGREES, atol=0.0):
            return None
        keys.append(key)
    return np.array(keys, np.uint64)


def replay(world: SimulatedWorld, policy: str, kept: Kept) -> Iterator[tuple[GlobalRound, int]]:
    """Yield every global round of a policy, planned with the distances of a saved cell.

    With each round the key of its models: as long as they are those of the kept cell, its
    training is this policy's training too.
    """
    rows, cols = links_of(world.base_graph)
    check_links(kept, len(rows), f"cells/{kept.about['cell']}.npz")
    distances, metrics = [], []
    for t, values in enumerate(kept.distance):
        distance = np.zeros(world.base_graph.shape)
        distance[rows, cols] = distance[cols, rows] = values
        distances.append(distance)
        metrics.append({name: float(kept.rounds[name][t]) for name in LEARNED})
    key = b"start"
    models = Recorded(distances, metrics, kept.stepped_up)
    for done in simulate_rounds(world, make_policy(policy), models):
        for turn in done.edge_rounds:
            key = key_after_training(key, turn.seen, turn.plan, turn.outcome)
        key = key_after_gossip(key, done.last.gossip)
        yield done, int.from_bytes(key[:8], "little")


def check_links(kept: Kept, links: int, where: str) -> None:
    """Raise an error about a cell whose distances do not fit the links of the base graph."""
    if kept.distance.shape[1] != links:
        found = kept.distance.shape[1]
        raise InputError(f"{where}: holds distances of {found} links; the base graph has {links}")


def same_training(cell: Cell, others: Iterable[Kept]) -> Kept | None:
    """The cell of another policy, if every step of its training equals that of a saved cell."""
    alike = [kept for kept in others if _same_world(cell, kept)]
    if not alike:
        return None
    scenario = cell.column.load()
    world = make_world(scenario, cell.seed)
    for kept in alike:
        if read_scenario(kept.about["scenario"]) == scenario:
            planned = _planned_on(world, cell.policy, kept)
            if planned is not None:
                who = {"cell": cell.name, "policy": cell.policy, "trained_as": kept.about["cell"]}
                return replace(kept, about=kept.about | who, rounds=kept.rounds | planned)
    return None


def _same_world(cell: Cell, kept: Kept) -> bool:
    column, _, _ = kept.about["cell"].rpartition("/")
    return bool(column == cell.column.name and kept.about["seed"] == cell.seed)


def _planned_on(world: SimulatedWorld, policy: str, kept: Kept) -> dict[str, FloatArray] | None:
    """Times and energies of the policy, if its models equal the saved ones in every round.

    Equal keys up to a round mean equal models there, so the distances of the next round are the
    kept ones as well: the comparison holds round by round, whatever the policy looks at.
    """
    planned: dict[str, list[float]] = {name: [] for name in PLANNED}
    for (done, key), theirs in zip(replay(world, policy, kept), kept.keys, strict=True):
        if key != theirs:
            return None
        planned["ends_at_s"].append(done.ends_at_s)
        planned["energy_j_mean"].append(float(done.last.after.spent_j.mean()))
    return {name: np.array(values) for name, values in planned.items()}


def _shortest(values: FloatArray) -> NDArray[Any]:
    """The values in the shortest type that holds them exactly."""
    for digits in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            short = values.astype(digits)
        if np.array_equal(short, values):
            return short
    return values


def write_kept(path: Path, kept: Kept) -> None:
    """Write a saved cell to its file."""
    distance = _shortest(kept.distance)
    arrays: dict[str, NDArray[Any]] = dict(kept.rounds)
    arrays |= {name: kept.rounds[name].astype(np.float32) for name in SHORT}
    if len(kept.stepped_up):
        arrays["stepped_up"] = kept.stepped_up
    about = json.dumps({"format_version": FORMAT_VERSION, **kept.about}, allow_nan=False)

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(
                file,
                allow_pickle=False,
                about=np.array(about),
                keys=kept.keys,
                distance=distance,
                **arrays,
            )

    write_whole(path, fill)


def read_kept(path: Path) -> Kept:
    """The saved cell in a file; an error if it is damaged or has another name."""
    try:
        with path.open("rb") as file:
            refuse_zip_bomb(file, path)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        about = json.loads(str(arrays["about"]))
        values = {name: arrays[name] for name in (*PLANNED, *LEARNED, "distance", "keys")}
        if not isinstance(about, dict) or about.get("format_version") != FORMAT_VERSION:
            raise ValueError("it is not of this format")
    except InputError:
        raise
    except Exception as error:  # a damaged archive may fail in any part of its reader
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    _check_about(path, about)
    _check_values(path, values)
    rounds = {name: values[name].astype(np.float64) for name in (*PLANNED, *LEARNED)}
    stepped_up = arrays.get("stepped_up", np.zeros((0, 4), np.int64))
    if stepped_up.dtype != np.int64 or stepped_up.ndim != 2 or stepped_up.shape[1] != 4:
        raise InputError(f"{path}: holds no whole training: its steps of codecs have no rows of 4")
    if not ((stepped_up >= 0) & (stepped_up[:, 3:] < len(LADDER))).all():
        raise InputError(f"{path}: holds no whole training: its steps of codecs are not steps")
    return Kept(about, rounds, values["distance"].astype(np.float64), values["keys"], stepped_up)


def _check_about(path: Path, about: dict[str, Any]) -> None:
    """Raise an error about a file whose description is missing or wrong."""
    cell, policy, seed = (about.get(name) for name in ("cell", "policy", "seed"))
    text, wall_s = about.get("scenario"), about.get("train_wall_s")
    texts = (cell, policy, text, about.get("trained_as", ""))
    if not all(isinstance(each, str) for each in texts) or type(seed) is not int:
        raise InputError(f"{path}: does not say what it is")
    if cell != f"{path.parent.name}/{path.stem}" or path.stem != run_name(str(policy), seed):
        raise InputError(f"{path}: says that it is {cell}, {policy}, seed {seed}")
    if not isinstance(wall_s, (int, float)) or not 0 <= wall_s < np.inf:
        raise InputError(f"{path}: train_wall_s = {wall_s!r}: must be a number >= 0")
    try:
        tomllib.loads(str(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: its scenario is not TOML: {reason(error)}") from None


def _check_values(path: Path, values: dict[str, NDArray[Any]]) -> None:
    """Raise an error about numbers that no complete training can give."""
    distance, keys = values["distance"], values["keys"]
    by_round = [values[name] for name in (*PLANNED, *LEARNED)]
    whole = (
        all(each.dtype.kind in "fiu" and each.ndim == 1 for each in by_round)
        and distance.dtype.kind in "fiu"
        and distance.ndim == 2
        and keys.dtype == np.uint64
        and keys.ndim == 1
        and {len(each) for each in (*by_round, keys)} == {len(distance)}
        and len(distance) > 0
        and all(_grows(values[name]) for name in PLANNED)
    )
    if not whole:
        raise InputError(f"{path}: holds no whole training")
    accuracy = values["accuracy"][~np.isnan(values["accuracy"])]
    if not len(accuracy) or not ((accuracy >= 0) & (accuracy <= 1)).all():
        raise InputError(f"{path}: holds no whole training: its accuracies are not 0 to 1")
    if not np.isfinite(distance).all() or (distance < 0).any():
        raise InputError(f"{path}: holds no whole training: its distances are not numbers >= 0")


def _grows(values: NDArray[Any]) -> bool:
    """Whether values can be sums over rounds: finite, never decreasing, positive at the end."""
    if not np.isfinite(values).all():
        return False
    return bool((np.diff(values, prepend=0.0) >= 0).all() and values[-1] > 0)


def kept_files(cells: Path, problems: list[str]) -> list[Path]:
    """The files of the cells in all columns; unreadable folders add to the problems."""
    columns = [entry for entry in _entries(cells, problems) if entry.is_dir()]
    files = [entry for column in columns for entry in _entries(column, problems)]
    return [path for path in files if path.suffix == ".npz"]


def _entries(folder: Path, problems: list[str]) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.name[:1] != ".")
    except OSError as error:
        problems.append(f"{folder}: cannot be read: {reason(error)}")
        return []
