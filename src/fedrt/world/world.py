"""What a coordinator can know of a world, simulated or real."""

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
        """The roster: every device and edge server with its constants and budgets."""
        ...

    @property
    def model_bits(self) -> float: ...

    @property
    def cycles(self) -> FloatArray:
        """Per device: CPU cycles of one edge round's local steps."""
        ...

    @property
    def participation(self) -> FloatArray:
        """Per device: the share of edge rounds in which it is to train."""
        ...

    @property
    def base_graph(self) -> NDArray[np.bool_]:
        """C x C: every link between edge servers."""
        ...

    @property
    def base_graph_words(self) -> str | None:
        """What there is to say about how the base graph was drawn."""
        ...

    @property
    def faults(self) -> FaultyWorld | None:
        """What fails; None where nothing does."""
        ...

    def observe(self, t: int, r: int) -> Observation:
        """Who is there, channels and bandwidths before edge round r of global round t."""
        ...

    def backhaul_bps(self, t: int) -> FloatArray:
        """C x C: the speed of every link in global round t; 0 where it cannot be used."""
        ...
