"""What is known before an edge round: devices, channels, bandwidths and perhaps the backhaul.

The backhaul is there in the last edge round of a global round.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays, read_only
from fedrt.world.laws import PAPER, Laws

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Backhaul:
    """The backhaul links and the consensus distances; all arrays are C x C and symmetric."""

    bps: FloatArray
    """The speed of each link in bit/s; 0 where there is no link."""
    consensus_distance: FloatArray
    consensus_limit: float
    contraction_limit: float | None = None
    latency_s: float = 0.0
    """What a message takes beyond its bits, in every gossip step."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @cached_property
    def base_graph(self) -> NDArray[np.bool_]:
        """The adjacency matrix of all links that exist in this round."""
        return read_only(self.bps > 0)


@dataclass(frozen=True)
class Menu:
    """The codecs that a policy may choose from for each upload, and the limit on their distortion.

    They are ordered by their bits, which rise while the distortion falls.
    """

    names: tuple[str, ...]
    bits: FloatArray
    """The bits of a message, one number for each codec."""
    distortion: FloatArray
    """The expected squared error of a message over the squared norm of what it encodes."""
    limit: float
    """The greatest mean distortion over the devices that train in an edge round."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @cached_property
    def uniform(self) -> int:
        """The codec of fewest bits that all devices may use at once."""
        return int(np.flatnonzero(self.distortion <= self.limit * (1 + 1e-12))[0])


@dataclass(frozen=True)
class Observation:
    """The observed state of one edge round. Devices are ordered by cluster.

    `edge_of_device` never decreases.
    """

    model_bits: float
    local_steps: int
    """S, the local steps that `cycles` stands for."""
    gossip_steps: int
    edge_of_device: NDArray[np.int64]
    cycles: FloatArray
    """The CPU cycles of an edge round's training: W_n = S I mu_n."""
    snr: FloatArray
    """The signal-to-noise ratio, linear and not in dB; where noise is spread over the bandwidth
    (`Laws.cn0_hz`), that over an even share of it."""
    tx_power_w: FloatArray
    capacitance: FloatArray
    cpu_min_hz: FloatArray
    cpu_max_hz: FloatArray
    edge_bandwidth_hz: FloatArray
    backhaul: Backhaul | None = None
    t: int = 0
    """The global round."""
    r: int = 0
    """The edge round within the global round."""
    device: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The devices by their numbers in the fleet; 0, 1, ... where nothing else is given."""
    gossip_codec: str = "none"
    """How servers send each other their models: a codec's name; `none`: as they are."""
    gossip_bits: float = 0.0
    """The bits that a server sends to a neighbour in a gossip step; `model_bits` if not given."""
    buffer_bits: float = 0.0
    """The bits of the model's buffers, which every message of a codec carries as they are."""
    upload_bits: FloatArray = field(default_factory=lambda: np.zeros(0))
    """The bits of each device's message; `model_bits` where nothing else is given."""
    menu: Menu | None = None
    """The codecs to choose from; None for policies that choose none."""
    least_bits: FloatArray | None = None
    """The bits that each device's message has at least, where devices have been stepped up to
    codecs with more bits than theirs; None where none has."""
    laws: Laws = PAPER
    """How the physical layer departs from the paper's."""

    def __post_init__(self) -> None:
        if not self.gossip_bits:
            object.__setattr__(self, "gossip_bits", self.model_bits)
        if len(self.upload_bits) != self.num_devices:
            object.__setattr__(self, "upload_bits", np.full(self.num_devices, self.model_bits))
        if len(self.device) != self.num_devices:
            object.__setattr__(self, "device", np.arange(self.num_devices))
        freeze_arrays(self)

    @property
    def num_devices(self) -> int:
        return len(self.edge_of_device)

    def only(self, chosen: NDArray[np.bool_]) -> Observation:
        """The same edge round with some of the devices."""
        mine: dict[str, Any] = {
            f.name: value[chosen]
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), np.ndarray)
            and f.name != "edge_bandwidth_hz"
        }
        return replace(self, **mine, laws=self.laws.only(chosen))

    @property
    def num_edges(self) -> int:
        return len(self.edge_bandwidth_hz)

    @cached_property
    def cluster_size(self) -> NDArray[np.int64]:
        """The number of devices of each cluster."""
        return read_only(np.bincount(self.edge_of_device, minlength=self.num_edges))

    @cached_property
    def first_device(self) -> NDArray[np.int64]:
        """The first device of each cluster, and N at the end: cluster c is first[c]:first[c+1]."""
        return read_only(np.concatenate(([0], np.cumsum(self.cluster_size))))

    def sum_by_edge(self, per_device: FloatArray) -> FloatArray:
        """The sum of a value over the devices of each cluster; 0 for an empty one."""
        sums = np.bincount(self.edge_of_device, weights=per_device, minlength=self.num_edges)
        return sums.astype(np.float64, copy=False)

    def max_by_edge(self, per_device: FloatArray) -> FloatArray:
        """The greatest value over the devices of each cluster; 0 for an empty one."""
        result = np.zeros(self.num_edges)
        filled = self.cluster_size > 0
        if per_device.size:
            result[filled] = np.maximum.reduceat(per_device, self.first_device[:-1][filled])
        return result
