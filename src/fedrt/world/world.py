"""The interface of a world, simulated or real: what a coordinator can know of it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrt.scenario import Scenario
from fedrt.world.faults import FaultyWorld
from fedrt.world.fleet import FleetArrays
from fedrt.world.observation import Observation

FloatArray = NDArray[np.float64]


class World(Protocol):
    """Where a run takes place: its fleet, and what can be observed before each edge round."""

    @property
    def scenario(self) -> Scenario: ...

    @property
    def seed(self) -> int: ...

    @property
    def fleet(self) -> FleetArrays:
        """Every device and edge server with its constants and budgets."""
        ...

    @property
    def model_bits(self) -> float: ...

    @property
    def gossip_bits(self) -> float:
        """The bits that a server sends to a neighbour in a gossip step."""
        ...

    @property
    def gossip_latency_s(self) -> float:
        """What a gossip step takes beyond the bits of its messages."""
        ...

    @property
    def cycles(self) -> FloatArray:
        """For each device, the CPU cycles of one edge round's local steps."""
        ...

    @property
    def participation(self) -> FloatArray:
        """For each device, the share of edge rounds in which it is to train."""
        ...

    @property
    def base_graph(self) -> NDArray[np.bool_]:
        """The adjacency matrix of all backhaul links that exist, C x C."""
        ...

    @property
    def base_graph_words(self) -> str | None:
        """Sentences on how the base graph was made."""
        ...

    @property
    def faults(self) -> FaultyWorld | None:
        """The faults of the world; None if nothing fails."""
        ...

    def observe(self, t: int, r: int) -> Observation:
        """The devices that are there, their channels and bandwidths before edge round (t, r)."""
        ...

    def backhaul_bps(self, t: int) -> FloatArray:
        """The link speeds in global round t in bit/s, C x C; 0 for a link that cannot be used."""
        ...
