"""The record of a global round as named arrays: all that the rest of the run depends on.

What was seen, what was planned and what happened in each of its edge rounds. A run that was stopped
goes on from its records: nothing in them is computed, drawn or measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import LADDER
from fedrt.plan import Gossip, Plan, plan_problems
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS, ModelDistances, Outcome, RoundCost
from fedrt.runs.rounds import PastEdgeRound
from fedrt.scenario import Scenario
from fedrt.world.faults import Failures
from fedrt.world.observation import Backhaul, Menu, Observation

Arrays = dict[str, NDArray[Any]]


class Kind(NamedTuple):
    """The type of an array and its axes: N devices, C edge servers, M metrics."""

    dtype: str
    axes: str


REAL, WHOLE, YES = ("float64", "int64", "bool")
BY_DEVICE, BY_EDGE, BY_PAIR = (Kind(REAL, axes) for axes in ("N", "C", "CC"))

SEEN = {
    "device": Kind(WHOLE, "N"),
    "edge_of_device": Kind(WHOLE, "N"),
    **dict.fromkeys(("cycles", "snr", "tx_power_w", "capacitance"), BY_DEVICE),
    **dict.fromkeys(("cpu_min_hz", "cpu_max_hz"), BY_DEVICE),
    "edge_bandwidth_hz": BY_EDGE,
    "model_bits": Kind(REAL, ""),
    **dict.fromkeys(("local_steps", "gossip_steps", "t", "r"), Kind(WHOLE, "")),
}
BACKHAUL = {
    "bps": BY_PAIR,
    "consensus_distance": BY_PAIR,
    "consensus_limit": Kind(REAL, ""),
}
CONTRACTION_LIMIT = {"contraction_limit": Kind(REAL, "")}
CODED = dict.fromkeys(("gossip_bits", "buffer_bits"), Kind(REAL, "")) | {
    "gossip_codec": Kind("str", "")
}
PLAN = {
    "status": Kind("str", ""),
    "bandwidth_hz": BY_DEVICE,
    "cpu_hz": BY_DEVICE,
    "local_steps": Kind(WHOLE, "N"),
}
TRAINS = {"trains": Kind(YES, "N")}
UPLOAD_CODEC = {"codec": Kind(WHOLE, "N")}
UPLOAD_BITS = {"upload_bits": BY_DEVICE}
LEAST_BITS = {"least_bits": BY_DEVICE}
MENU = {
    "names": Kind("str", ""),
    **dict.fromkeys(("bits", "distortion"), Kind(REAL, "M")),
    "limit": Kind(REAL, ""),
}
GOSSIP = {"links": Kind(YES, "CC"), "steps": Kind(WHOLE, "")}
WEIGHTS = {"weights": BY_PAIR}
CODEC = {"codec": Kind("str", "")}
COST = {field.name: BY_DEVICE for field in fields(RoundCost)} | dict.fromkeys(
    ("edge_time_s", "backhaul_s"), BY_EDGE
)
OUTCOME = {
    "delivered": Kind(YES, "N"),
    "late": Kind(YES, "N"),
    "delivered_s": BY_EDGE,
    "measured": Kind(YES, ""),
}
REFUSED = {"refused": Kind(WHOLE, "N")}
STEPPED = {"stepped_up": Kind(WHOLE, "N")}
FAILURES = {
    "silent": Kind(YES, "N"),
    "cpu_fraction": BY_DEVICE,
    **dict.fromkeys(("expected", "absent", "idle"), Kind(WHOLE, "C")),
    "server_up": Kind(YES, "C"),
    "links_down": Kind(WHOLE, ""),
}
DISTANCES = {"true": BY_PAIR}
COMPARED = {"compared": Kind(YES, "CC")}
METRICS = {"names": Kind("str", ""), "values": Kind(REAL, "M")}


class RunSize(NamedTuple):
    """The numbers of devices, edge servers and edge rounds of a run."""

    devices: int
    edges: int
    edge_rounds: int

    @staticmethod
    def of(scenario: Scenario) -> RunSize:
        """The size of a run of the given scenario."""
        fleet, rounds = scenario.fleet, scenario.rounds
        return RunSize(fleet.num_devices, fleet.num_edges, rounds.edge_rounds)


class BadRecordError(ValueError):
    """Raised for arrays that are not a valid record of a global round."""


def packed(edge_rounds: Sequence[PastEdgeRound]) -> Arrays:
    """The record of a global round as named arrays.

    Observed values that equal those of the edge round before are left out.
    """
    found: Arrays = {"edge_rounds": np.array(len(edge_rounds))}
    before: Arrays = {}
    for r, done in enumerate(edge_rounds):
        now = _arrays_of(done)
        found |= {
            f"{r}.{name}": array
            for name, array in now.items()
            if name not in before or not _same(array, before[name])
        }
        # A part that comes and goes is told by its absence: nothing of it may be taken over.
        before = {name: array for name, array in now.items() if name.partition(".")[0] == "seen"}
    return found


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and np.array_equal(one, other)


def _arrays_of(done: PastEdgeRound) -> Arrays:
    seen, plan, outcome = done.seen, done.plan, done.outcome
    own_bits = bool((seen.upload_bits != seen.model_bits).any())
    parts: dict[str, tuple[object, Mapping[str, Kind]]] = {
        "seen": (
            seen,
            SEEN
            | (CODED if _is_coded(seen) else {})
            | (UPLOAD_BITS if own_bits else {})
            | (LEAST_BITS if seen.least_bits is not None else {}),
        ),
        "plan": (plan, PLAN),
        "cost": (outcome.cost, COST),
        "outcome": (outcome, OUTCOME),
    }
    if seen.backhaul is not None:
        limit = {} if seen.backhaul.contraction_limit is None else CONTRACTION_LIMIT
        parts["backhaul"] = (seen.backhaul, BACKHAUL | limit)
    if plan.trains is not None:
        parts["trains"] = (plan, TRAINS)
    if plan.codec is not None:
        parts["codec"] = (plan, UPLOAD_CODEC)
    if plan.gossip is not None:
        own = {} if plan.gossip.weights is None else WEIGHTS
        codec = {} if plan.gossip.codec is None else CODEC
        parts["gossip"] = (plan.gossip, GOSSIP | own | codec)
    if outcome.planned is not outcome.cost:
        parts["planned"] = (outcome.planned, COST)
    if outcome.refused is not None:
        parts["refused"] = (outcome, REFUSED)
    if outcome.stepped_up is not None:
        parts["stepped"] = (outcome, STEPPED)
    if outcome.failures is not None:
        parts["failures"] = (outcome.failures, FAILURES)
    if outcome.distances is not None:
        some = outcome.distances.compared is not None
        parts["distances"] = (outcome.distances, DISTANCES | (COMPARED if some else {}))
    found = {
        f"{part}.{name}": np.asarray(
            getattr(holder, name), dtype=None if kind.dtype == "str" else kind.dtype
        )
        for part, (holder, kinds) in parts.items()
        for name, kind in kinds.items()
    }
    if seen.menu is not None:
        menu = seen.menu
        found["menu.names"] = np.array(json.dumps(menu.names))
        found |= {f"menu.{name}": np.array(getattr(menu, name)) for name in MENU if name != "names"}
    if outcome.metrics:
        found["metrics.names"] = np.array(json.dumps(list(outcome.metrics)))
        found["metrics.values"] = np.array(list(outcome.metrics.values()), dtype=np.float64)
    return found


def _is_coded(seen: Observation) -> bool:
    """Whether gossip is coded, or messages of codecs carry buffers."""
    return seen.gossip_codec != "none" or seen.buffer_bits > 0


def unpacked(arrays: Mapping[str, NDArray[Any]], size: RunSize, t: int) -> list[PastEdgeRound]:
    """The edge rounds in the record of global round t; `BadRecordError` if it is invalid."""
    left = dict(arrays)
    count = left.pop("edge_rounds", None)
    if count is None or count.shape or count.dtype.kind not in "iu":
        raise BadRecordError("it does not say how many edge rounds it has")
    if int(count) != size.edge_rounds:
        raise BadRecordError(f"it has {int(count)} edge rounds, the run {size.edge_rounds}")
    found: list[PastEdgeRound] = []
    before: Arrays = {}
    for r in range(size.edge_rounds):
        prefix = f"{r}."
        own = {
            name[len(prefix) :]: left.pop(name) for name in list(left) if name.startswith(prefix)
        }
        before = {k: v for k, v in (before | own).items() if k in own or k.startswith("seen.")}
        found.append(_Reader(before, size).edge_round())
        _check_place(found[-1].seen, t, r, size)
    if left:
        raise BadRecordError(f"it holds {next(iter(left))}")
    return found


class _Reader:
    """Reads one edge round from named arrays and checks each of them."""

    def __init__(self, arrays: Arrays, size: RunSize) -> None:
        self.arrays, self.fleet = arrays, size
        device, bandwidth = arrays.get("seen.device"), arrays.get("seen.edge_bandwidth_hz")
        if device is None or bandwidth is None or device.ndim != 1 or bandwidth.ndim != 1:
            raise BadRecordError("it does not say what was seen")
        if len(bandwidth) != size.edges:
            raise BadRecordError(f"it is of {len(bandwidth)} edge servers, the run of {size.edges}")
        self.size = {"N": len(device), "C": len(bandwidth)}
        self.used: set[str] = set()

    def edge_round(self) -> PastEdgeRound:
        """The edge round that the arrays describe."""
        backhaul = self.one("backhaul", BACKHAUL, CONTRACTION_LIMIT, make=Backhaul)
        about = {"backhaul": backhaul, "menu": self.menu()}
        seen = self.needed(
            self.one("seen", SEEN, CODED | UPLOAD_BITS | LEAST_BITS, make=Observation, **about)
        )
        gossip = self.one("gossip", GOSSIP, WEIGHTS | CODEC, make=Gossip)
        own = (self.values("trains", TRAINS) or {}) | (self.values("codec", UPLOAD_CODEC) or {})
        plan = self.needed(self.one("plan", PLAN, make=Plan, gossip=gossip, **own))
        cost = self.needed(self.one("cost", COST, make=RoundCost))
        metrics = self.values("metrics", METRICS)
        outcome = self.one(
            "outcome",
            OUTCOME,
            make=Outcome,
            device=seen.device,
            cost=cost,
            planned=self.one("planned", COST, make=RoundCost) or cost,
            failures=self.one("failures", FAILURES, make=Failures),
            distances=self.one("distances", DISTANCES, COMPARED, make=ModelDistances),
            metrics={} if metrics is None else _metrics(metrics["names"], metrics["values"]),
            **self.reasons(),
            **self.steps(),
        )
        unknown = self.arrays.keys() - self.used
        if unknown:
            raise BadRecordError(f"it holds {min(unknown)}")
        self.check_devices(seen)
        problems = plan_problems(plan, seen)
        if problems:
            raise BadRecordError(f"its plan cannot be carried out: {problems[0]}")
        return PastEdgeRound(seen, plan, self.needed(outcome))

    def menu(self) -> Menu | None:
        """The menu of codecs, if the record has one."""
        found = self.values("menu", MENU)
        if found is None:
            return None
        names = _names(found["names"], len(found["bits"]))
        lengths = {len(names or ()), len(found["bits"]), len(found["distortion"])}
        numbers = np.concatenate([found["bits"], found["distortion"]])
        if not names or len(lengths) > 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise BadRecordError("its menu of codecs has no names, bits or distortions")
        return Menu(tuple(names), found["bits"], found["distortion"], found["limit"])

    def check_devices(self, seen: Observation) -> None:
        """Raise an error about devices or edge servers that the run does not have."""
        device, edge = seen.device, seen.edge_of_device
        if len(np.unique(device)) < len(device) or not _within(device, self.fleet.devices):
            raise BadRecordError("its devices are not those of the run")
        if not _within(edge, self.fleet.edges) or (np.diff(edge) < 0).any():
            raise BadRecordError("its devices are not ordered by edge server")

    def reasons(self) -> dict[str, Any]:
        """The reasons for which updates were refused, if the record has them."""
        found = self.values("refused", REFUSED) or {}
        for numbers in found.values():
            if not _within(numbers - ACCEPTED, len(REASONS) - ACCEPTED):
                raise BadRecordError("its refused updates have no reason")
        return found

    def steps(self) -> dict[str, Any]:
        """The codecs that devices were stepped up to, if the record has them."""
        found = self.values("stepped", STEPPED) or {}
        for numbers in found.values():
            if not _within(numbers - NOT_STEPPED, len(LADDER) - NOT_STEPPED):
                raise BadRecordError("its devices are stepped up to no codec")
        return found

    def needed(self, part: Any) -> Any:
        """A required object; an error if the record lacks it."""
        if part is None:
            raise BadRecordError("it lacks a part of an edge round")
        return part

    def one(
        self,
        part: str,
        kinds: Mapping[str, Kind],
        perhaps: Mapping[str, Kind] | None = None,
        *,
        make: Callable[..., Any],
        **more: Any,
    ) -> Any:
        """An optional object; None if the record lacks it."""
        values = self.values(part, kinds, perhaps or {})
        return None if values is None else make(**values, **more)

    def values(
        self, part: str, kinds: Mapping[str, Kind], perhaps: Mapping[str, Kind] | None = None
    ) -> dict[str, Any] | None:
        """The checked fields of an object by name; None if the record lacks it."""
        if not any(name.startswith(f"{part}.") for name in self.arrays):
            return None
        found = {}
        for name, kind in {**kinds, **(perhaps or {})}.items():
            whole = f"{part}.{name}"
            if whole in self.arrays:
                found[name] = self.value(whole, kind)
            elif name in kinds:
                raise BadRecordError(f"it lacks {whole}")
        return found

    def value(self, name: str, kind: Kind) -> Any:
        """One checked array, or the number or text that it holds."""
        array = self.arrays[name]
        self.used.add(name)
        if kind.axes == "M":
            good = array.ndim == 1
        else:
            good = array.shape == tuple(self.size[axis] for axis in kind.axes)
        wanted = array.dtype.kind == "U" if kind.dtype == "str" else array.dtype == kind.dtype
        if not good or not wanted:
            raise BadRecordError(f"its {name} is {array.dtype} of shape {array.shape}")
        # Metrics may be NaN, and so may what a plan says of a device that it leaves out.
        free = kind.axes == "M" or name.startswith("plan.")
        if kind.dtype == REAL and not free and not np.isfinite(array).all():
            raise BadRecordError(f"its {name} is not finite")
        return array if kind.axes else array.item()


def _check_place(seen: Observation, t: int, r: int, size: RunSize) -> None:
    """Raise an error about an edge round with wrong numbers, or without what its place needs."""
    if (seen.t, seen.r) != (t, r):
        raise BadRecordError(
            f"it has edge round {seen.r} of global round {seen.t} in another's place"
        )
    if (seen.backhaul is None) != (r + 1 < size.edge_rounds):
        raise BadRecordError("a backhaul is for the last edge round, and for no other")


def _within(numbers: NDArray[np.int64], count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def _names(text: str, count: int) -> list[str] | None:
    """The names in a JSON text, as many as asked for; None if it holds anything else."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    good = isinstance(listed, list) and all(isinstance(name, str) for name in listed)
    return listed if good and len(listed) == count else None


def _metrics(names: str, values: NDArray[np.float64]) -> dict[str, float]:
    listed = _names(names, len(values))
    if listed is None:
        raise BadRecordError("its metrics have no names")
    return dict(zip(listed, values.tolist(), strict=True))
