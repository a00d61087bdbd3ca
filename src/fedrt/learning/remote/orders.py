"""What a coordinator, edge servers and devices tell each other about training; plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from mmap import PROT_READ, mmap

import numpy as np
from numpy.typing import NDArray

from fedrt.control.mixing.damping import damped
from fedrt.control.mixing.weights import mixing_of
from fedrt.messages import GOSSIP_CODECS, UPLOADS, Raw, distortion
from fedrt.plan import Gossip
from fedrt.rounds import ACCEPTED
from fedrt.scenario.model import Scenario
from fedrt.validation import shown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_SIDE = 10**6
"""The greatest size of an axis of a sample, and the greatest number of classes."""


MOST = (10**9, 10**9, 10**6)
"""The greatest global round, edge round and number of local steps."""


@dataclass(frozen=True)
class ModelInputs:
    """What a model takes and gives, as far as the scenario does not say it."""

    shape: tuple[int, ...]
    """Of one sample, the channels of images first."""
    num_classes: int
    integers: bool = False
    """Whether samples are of whole numbers, such as tokens."""

    @property
    def problem(self) -> str | None:
        """What is wrong with inputs that somebody else sent; None if nothing is."""
        sizes = (*self.shape, self.num_classes)
        whole = all(type(size) is int and 0 < size <= MOST_SIDE for size in sizes)
        if whole and 0 < len(self.shape) <= 4 and type(self.integers) is bool:
            return None
        return f"inputs of {self.shape} and {self.num_classes} classes: no model takes them"


@dataclass(frozen=True)
class LocalOrder:
    """The training of one device in one edge round."""

    t: int
    r: int
    local_steps: int
    codec: str | None = None
    """A codec by its name, or by the path of a user's; None: what `learning.upload` says."""
    correction: Raw | None = None
    """What SCAFFOLD adds to gradients, in the model's type; None without it."""
    device: int = 0
    """The device's number in the fleet."""
    samples: int = 1
    """The number of samples that it trains on, from which its weight is made."""

    @property
    def problem(self) -> str | None:
        """What is wrong with an order that somebody else sent; None if nothing is."""
        numbers = (self.t, self.r, self.local_steps)
        if not all(0 <= number <= most for number, most in zip(numbers, MOST, strict=True)):
            return f"an order of round ({self.t}, {self.r}) with {self.local_steps} local steps"
        if self.codec is not None and self.codec not in UPLOADS and ":" not in self.codec:
            return f"an order with the codec {shown(self.codec)}: must be one that is shipped"
        return None


@dataclass(frozen=True)
class LocalResult:
    """What a device sends when it has trained."""

    message: Raw
    """Its update, coded, or its whole model; empty where its training diverged."""
    loss_sum: float
    """The sum of its mini-batch losses."""
    largest: float
    """The greatest absolute number in its model; not finite where its training diverged."""
    update_norm: float
    """The norm of its update; NaN without a shipped codec."""
    left_norm: float
    """The norm of what its message leaves out; NaN without a shipped codec."""
    train_s: float = 0.0
    """The seconds that it trained, loading torch left out."""
    variate: Raw | None = None
    """With SCAFFOLD, the mean of its gradients, in the model's type."""


@dataclass(frozen=True)
class KeptResult:
    """What a device has sent, its message and then its variate at the beginning of a file."""

    path: str
    message_bytes: int
    variate_bytes: int
    loss_sum: float
    largest: float
    update_norm: float
    left_norm: float
    train_s: float

    def loaded(self) -> LocalResult:
        """The same with the bytes themselves, which are read as they are needed."""
        end = self.message_bytes + self.variate_bytes
        held: Raw = b""
        if end:  # no file can be mapped of which nothing is wanted
            with open(self.path, "rb") as file:
                held = memoryview(mmap(file.fileno(), end, prot=PROT_READ))
        return LocalResult(
            held[: self.message_bytes],
            self.loss_sum,
            self.largest,
            self.update_norm,
            self.left_norm,
            self.train_s,
            held[self.message_bytes :] if self.variate_bytes else None,
        )


@dataclass(frozen=True)
class Averaged:
    """What became of the results of an edge round; arrays have the devices that sent one."""

    devices: IntArray
    refused: IntArray
    """Why an update was refused, a place in `rounds.REASONS`, or `ACCEPTED`."""
    why: dict[int, str]
    """The same in words, by device."""
    stepped_up: IntArray | None
    """As of `Outcome`; None where all devices keep their codecs."""
    upload_bytes: IntArray
    """The length of each message, with its variate."""
    loss_sum: FloatArray
    steps: IntArray

    @property
    def counted(self) -> NDArray[np.bool_]:
        """For each device, whether its update is in the average."""
        return self.refused == ACCEPTED


def mean_loss(edge_rounds: Iterable[Sequence[Averaged]]) -> float:
    """The mean loss of the local steps of a global round, from what its edge servers averaged.

    For each edge round, one of each edge server that had results, by their numbers.
    """
    total, steps = 0.0, 0
    for done in edge_rounds:
        if done:
            total += float(np.concatenate([each.loss_sum[each.counted] for each in done]).sum())
            steps += sum(int(each.steps[each.counted].sum()) for each in done)
    return total / steps if steps else np.nan


@dataclass(frozen=True)
class GossipOrder:
    """The part of one edge server in the gossip that ends a global round."""

    t: int
    own: float
    """The weight of its own model."""
    neighbours: tuple[int, ...]
    """The servers that it exchanges messages with in every step, rising."""
    weights: tuple[float, ...]
    """Of their models."""
    steps: int
    codec: str = "none"
    coded_weights: tuple[float, ...] = ()
    """With a codec, the weights of differences between copies, damped where it needs that."""
    anew: tuple[int, ...] = ()
    """The neighbours of whose copies nothing is left on one side: both begin anew."""

    def __post_init__(self) -> None:
        if not self.coded_weights:
            object.__setattr__(self, "coded_weights", self.weights)

    def problem(self, edge: int) -> str | None:
        """What is wrong with an order for an edge server; None if nothing is."""
        near, weights = self.neighbours, (self.own, *self.weights, *self.coded_weights)
        if not len(near) == len(self.weights) == len(self.coded_weights):
            return f"{len(near)} neighbours with {len(self.weights)} weights"
        if edge in near or list(near) != sorted(set(near)) or min(near, default=0) < 0:
            return f"neighbours {near}: must be other servers, rising"
        if not np.isfinite(weights).all() or not 0 <= self.steps <= MOST[2]:
            return f"weights {weights} in {self.steps} steps"
        if self.codec not in GOSSIP_CODECS:
            return f"codec {shown(self.codec)}: must be one of {', '.join(GOSSIP_CODECS)}"
        return None


def gossip_orders(t: int, gossip: Gossip, scenario: Scenario) -> list[GossipOrder]:
    """The parts of all edge servers in a gossip, by their numbers."""
    weights = mixing_of(gossip, scenario.control.mixing)
    codec = gossip.codec or scenario.learning.gossip or "none"
    coded = weights if codec == "none" else damped(weights, distortion(codec))
    found = []
    for c, (row, other) in enumerate(zip(weights, coded, strict=True)):
        near = [j for j in np.flatnonzero(row).tolist() if j != c]
        found.append(
            GossipOrder(
                t,
                float(row[c]),
                tuple(near),
                tuple(row[near].tolist()),
                gossip.steps,
                codec,
                tuple(other[near].tolist()),
            )
        )
    return found
