"""The outcome of an edge round: seconds, joules and bytes, updates that arrived, failures.

A simulated world computes it from the cost model; on real devices it is measured. It holds
everything that a stopped run needs in order to resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.plan import Gossip, Plan
from fedrt.world.faults import Failures
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

REASONS = (
    "not finite",
    "wrong shape",
    "norm far beyond the others",
    "copy of another device's",
    "against the others round after round",
    "undoes the model",
)
"""The reasons for refusing an update; arrays hold their positions."""
NOT_FINITE, WRONG_SHAPE, FAR_BEYOND, COPY, ASTRAY, UNDOES = range(len(REASONS))
ACCEPTED = -1
"""The value for an update that was not refused."""
NOT_STEPPED = -1
"""The value for a device that keeps its codec."""


@dataclass(frozen=True)
class RoundCost:
    """The cost of one edge round: times, joules and bytes of devices, times of edge servers."""

    compute_s: FloatArray
    upload_s: FloatArray
    compute_j: FloatArray
    upload_j: FloatArray
    edge_time_s: FloatArray
    """The time of each cluster: that of its slowest device."""
    backhaul_s: FloatArray
    """Per server; 0 unless this is the last edge round of a global round."""
    upload_bytes: FloatArray
    """For each device, the size of its message."""
    download_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """For each device, the seconds of the broadcast that it listens to; 0 if downloads are free."""
    download_j: FloatArray = field(default_factory=lambda: np.zeros(0))
    idle_j: FloatArray = field(default_factory=lambda: np.zeros(0))
    """For each device, the joules it spends after its upload until its server has averaged."""

    def __post_init__(self) -> None:
        for name in ("download_s", "download_j", "idle_j"):
            if len(getattr(self, name)) != len(self.compute_s):
                object.__setattr__(self, name, np.zeros(len(self.compute_s)))

    @property
    def energy_j(self) -> FloatArray:
        """The joules that each device spends."""
        return self.compute_j + self.upload_j + self.download_j + self.idle_j

    @property
    def busy_s(self) -> FloatArray:
        """The seconds from the start of the edge round until each device's update has arrived."""
        return self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True)
class ModelDistances:
    """The distances between the edge servers' models, and which pairs of servers know them."""

    true: FloatArray
    """C x C, the L2 norm between every two models."""
    compared: BoolArray | None = None
    """C x C, pairs of servers that know their distance; None: those that gossiped last."""


@dataclass(frozen=True)
class Updates:
    """What became of the updates that devices sent; arrays in the order of the observation."""

    refused: IntArray | None = None
    """For each device, why its update was refused, as in `Outcome`."""
    upload_bytes: FloatArray | None = None
    """The size of what each device sent; None: the whole model, as the cost model has it."""
    stepped_up: IntArray | None = None
    """For each device, the codec it is stepped up to, as in `Outcome`."""


@dataclass(frozen=True)
class Outcome:
    """What happened in an edge round; arrays over devices are in the order of the observation."""

    device: IntArray
    """The devices by their numbers in the fleet."""
    cost: RoundCost
    """What is charged: measured if `measured`, otherwise computed by the cost model."""
    planned: RoundCost
    """The prediction: the plan's cost by the cost model if nothing fails."""
    delivered: BoolArray
    """For each device, whether its update arrived in time; false if the plan leaves it out."""
    late: BoolArray
    """For each device, whether it had not finished at the deadline."""
    delivered_s: FloatArray
    """Per edge: when its last update arrived; 0 where none did."""
    failures: Failures | None = None
    """The failures; None in a world without faults."""
    refused: IntArray | None = None
    """Per device: why its edge server refused its update, a place in `REASONS`, or `ACCEPTED`;
    None where updates are not screened."""
    stepped_up: IntArray | None = None
    """Per device: the place in `messages.LADDER` of the least codec that it may use from the next
    edge round on, if its messages left too much out, or `NOT_STEPPED`; None where all keep theirs.
    """
    distances: ModelDistances | None = None
    """Of the models that the servers hold after this edge round, before any gossip; None where
    the next choice of links does not need them."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics of training in the global round that ends here, such as loss and accuracies."""
    measured: bool = False
    """Whether `cost` was measured on real devices."""
    metered: BoolArray | None = None
    """For each device, whether it has read its joules from a meter; None: all are modelled."""
    clock_s: float | None = None
    """On real devices: the seconds by the clock from the end of the edge round before to the end of
    this one, with all that no law of the scenario knows."""
    planned_overhead_s: float | None = None
    """On real devices: the part of that beyond training, uploads and gossip, as was expected."""
    enforce_s: FloatArray | None = None
    """Per edge: how long it took to hold real devices to the plan; None where it is simulated."""

    @property
    def lost_s(self) -> FloatArray:
        """For each edge server, the seconds it waited for failed devices after its last update."""
        return self.cost.edge_time_s - self.delivered_s

    @property
    def is_refused(self) -> BoolArray:
        """For each device, whether its update was refused."""
        if self.refused is None:
            return np.zeros(len(self.device), dtype=bool)
        return self.refused != ACCEPTED


def as_planned(plan: Plan, seen: Observation, cost: RoundCost) -> Outcome:
    """The outcome of an edge round in which everything goes as planned."""
    nobody = np.zeros(seen.num_devices, dtype=bool)
    return Outcome(
        device=seen.device,
        cost=cost,
        planned=cost,
        delivered=plan.trained,
        late=nobody,
        delivered_s=cost.edge_time_s,
    )


def key_after_training(
    before: bytes, seen: Observation, plan: Plan, outcome: Outcome | None = None
) -> bytes:
    """A key of the edge models after training, made from all that determines them.

    Training knows nothing of seconds or joules: equal keys mean equal models. The outcome counts
    only where devices fail or are left out.
    """
    some = outcome is not None and (outcome.failures is not None or plan.trains is not None)
    came = (outcome.delivered,) if some and outcome is not None else ()
    coded = () if plan.codec is None or seen.menu is None else (seen.menu.names, plan.codec)
    return digest(before, seen.t, seen.r, seen.device, plan.local_steps, *came, *coded)


def key_after_gossip(before: bytes, gossip: Gossip) -> bytes:
    """A key of the edge models after gossip, made from all that determines them."""
    own = () if gossip.weights is None else (gossip.weights,)
    coded = () if gossip.codec is None else (gossip.codec,)
    relayed = ("relayed",) if gossip.relayed else ()
    return digest(before, gossip.steps, gossip.links, *own, *coded, *relayed)


def digest(before: bytes, *parts: Any) -> bytes:
    """A digest of an earlier key and some values."""
    found = blake2b(before, digest_size=16)
    for part in parts:
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        found.update(b"\x1f")
    return found.digest()
