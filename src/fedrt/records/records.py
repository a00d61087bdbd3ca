"""The record of a global round as named arrays: all that the rest of the run depends on.

What was seen, what was planned and what happened in each of its edge rounds. A run that was stopped
goes on from its records: nothing in them is computed, drawn or measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrt.messages import LADDER
from fedrt.plan import Gossip, Plan, plan_problems
from fedrt.records.fields import (
    BACKHAUL,
    CLOCK,
    CODEC,
    CODED,
    COMPARED,
    CONTRACTION_LIMIT,
    COST,
    CPU,
    DISTANCES,
    ENFORCED,
    FAILURES,
    GOSSIP,
    HOW,
    LATENCY,
    LAWS,
    LEAST_BITS,
    MENU,
    METERED,
    METRICS,
    MORE_COST,
    OUTCOME,
    PLAN,
    POWER,
    REAL,
    REFUSED,
    SEEN,
    STEPPED,
    TRAINS,
    UPLOAD_BITS,
    UPLOAD_CODEC,
    WEIGHTS,
    Kind,
)
from fedrt.rounds import ACCEPTED, NOT_STEPPED, REASONS, ModelDistances, Outcome, RoundCost
from fedrt.runs.rounds import PastEdgeRound
from fedrt.scenario import Scenario
from fedrt.world.faults import Failures
from fedrt.world.laws import CUBIC, PAPER, CpuTables, Laws
from fedrt.world.observation import Backhaul, Menu, Observation

Arrays = dict[str, NDArray[Any]]

NO_REASON = "its refused updates have no reason"
NO_CODEC = "its devices are stepped up to no codec"


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
            if name not in before or not np.array_equal(array, before[name])
        }
        # A part that comes and goes is told by its absence: nothing of it may be taken over.
        before = {name: array for name, array in now.items() if name.partition(".")[0] == "seen"}
    return found


SOME: Mapping[str, Mapping[str, Kind]] = {
    "refused": REFUSED,
    "stepped": STEPPED,
    "enforced": ENFORCED,
    "metered": METERED,
    "clock": CLOCK,
}
"""Parts of an outcome that not every run has."""


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
        **_law_parts(seen.laws),
        "plan": (plan, PLAN | ({} if plan.tx_power_w is None else POWER)),
        "cost": (outcome.cost, _cost_kinds(outcome.cost)),
        "outcome": (outcome, OUTCOME),
    }
    if seen.backhaul is not None:
        limit = {} if seen.backhaul.contraction_limit is None else CONTRACTION_LIMIT
        late = LATENCY if seen.backhaul.latency_s else {}
        parts["backhaul"] = (seen.backhaul, BACKHAUL | limit | late)
    if plan.trains is not None:
        parts["trains"] = (plan, TRAINS)
    if plan.codec is not None:
        parts["codec"] = (plan, UPLOAD_CODEC)
    if plan.gossip is not None:
        own = {} if plan.gossip.weights is None else WEIGHTS
        codec = {} if plan.gossip.codec is None else CODEC
        how = {name: kind for name, kind in HOW.items() if getattr(plan.gossip, name)}
        parts["gossip"] = (plan.gossip, GOSSIP | own | codec | how)
    if outcome.planned is not outcome.cost:
        parts["planned"] = (outcome.planned, _cost_kinds(outcome.planned))
    for part, kinds in SOME.items():
        if all(getattr(outcome, name) is not None for name in kinds):
            parts[part] = (outcome, kinds)
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


def _law_parts(laws: Laws) -> dict[str, tuple[object, Mapping[str, Kind]]]:
    """What departs from the paper's physical layer; nothing where nothing does."""
    kinds = {
        name: kind
        for name, kind in LAWS.items()
        if getattr(laws, name) is not None
        and (kind.axes or getattr(laws, name) != getattr(PAPER, name))
    }
    parts: dict[str, tuple[object, Mapping[str, Kind]]] = {"seen.laws": (laws, kinds)}
    return parts if laws.cpu is None else parts | {"seen.cpu": (laws.cpu, CPU)}


def _cost_kinds(cost: RoundCost) -> dict[str, Kind]:
    return COST | {name: kind for name, kind in MORE_COST.items() if getattr(cost, name).any()}


def _is_coded(seen: Observation) -> bool:
    """Whether what servers send each other is coded or longer, or codecs' messages have buffers."""
    own_length = seen.gossip_bits != seen.model_bits
    return seen.gossip_codec != "none" or seen.buffer_bits > 0 or own_length


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
        backhaul = self.one("backhaul", BACKHAUL, CONTRACTION_LIMIT | LATENCY, make=Backhaul)
        about = {"backhaul": backhaul, "menu": self.menu(), "laws": self.laws()}
        seen = self.needed(
            self.one("seen", SEEN, CODED | UPLOAD_BITS | LEAST_BITS, make=Observation, **about)
        )
        gossip = self.one("gossip", GOSSIP, WEIGHTS | CODEC | HOW, make=Gossip)
        own = (self.values("trains", TRAINS) or {}) | (self.values("codec", UPLOAD_CODEC) or {})
        plan = self.needed(self.one("plan", PLAN, POWER, make=Plan, gossip=gossip, **own))
        cost = self.needed(self.one("cost", COST, MORE_COST, make=RoundCost))
        metrics = self.values("metrics", METRICS)
        outcome = self.one(
            "outcome",
            OUTCOME,
            make=Outcome,
            device=seen.device,
            cost=cost,
            planned=self.one("planned", COST, MORE_COST, make=RoundCost) or cost,
            failures=self.one("failures", FAILURES, make=Failures),
            distances=self.distances(),
            metrics={} if metrics is None else _metrics(metrics["names"], metrics["values"]),
            **(self.values("enforced", ENFORCED) or {}),
            **(self.values("metered", METERED) or {}),
            **(self.values("clock", CLOCK) or {}),
            **self.places("refused", REFUSED, (ACCEPTED, len(REASONS)), NO_REASON),
            **self.places("stepped", STEPPED, (NOT_STEPPED, len(LADDER)), NO_CODEC),
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

    def distances(self) -> ModelDistances | None:
        """The distances between models; on real devices, NaN for pairs that were not compared."""
        found: ModelDistances | None = self.one(
            "distances", DISTANCES, COMPARED, make=ModelDistances
        )
        if found is None:
            return None
        known = np.ones_like(found.true, dtype=bool)
        if found.compared is not None:
            known = found.compared | np.eye(len(known), dtype=bool)
        if not (np.isfinite(found.true) | (np.isnan(found.true) & ~known)).all():
            raise BadRecordError("its distances.true is not finite")
        return found

    def check_devices(self, seen: Observation) -> None:
        """Raise an error about devices or edge servers that the run does not have."""
        device, edge = seen.device, seen.edge_of_device
        if len(np.unique(device)) < len(device) or not _within(device, self.fleet.devices):
            raise BadRecordError("its devices are not those of the run")
        if not _within(edge, self.fleet.edges) or (np.diff(edge) < 0).any():
            raise BadRecordError("its devices are not ordered by edge server")

    def laws(self) -> Laws:
        """The physical layer beyond the paper's, if the record has anything of it."""
        cpu: CpuTables | None = self.one("seen.cpu", CPU, make=CpuTables)
        if cpu is not None:
            points, tables = len(cpu.s_per_cycle), len(cpu.first) - 1
            whole = cpu.first[:1].tolist() == [0] and (np.diff(cpu.first) > 0).all()
            lengths = {points, len(cpu.j_per_cycle), *cpu.first[-1:].tolist()}
            if not whole or len(lengths) > 1 or not _within(cpu.of_device - CUBIC, tables - CUBIC):
                raise BadRecordError("its tables of computing energy have no points")
        laws: Laws = self.one("seen.laws", {}, LAWS, make=Laws, cpu=cpu) or Laws(cpu=cpu)
        return laws

    def places(
        self, part: str, kinds: Mapping[str, Kind], ends: tuple[int, int], words: str
    ) -> dict[str, Any]:
        """Devices' places in a list, if the record has them; an error if one is not in it."""
        found, (least, above) = self.values(part, kinds) or {}, ends
        if not all(_within(numbers - least, above - least) for numbers in found.values()):
            raise BadRecordError(words)
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
        # Metrics may be NaN, and so may what a plan says of a device that it leaves out; distances
        # are checked where it is known which pairs have been compared.
        free = kind.axes == "M" or name.startswith(("plan.", "distances."))
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
