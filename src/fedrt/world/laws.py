"""The physical layer of an edge round beyond the paper's cost model (docs/cost-model.md).

Every default is the paper's: a rate in proportion to the bandwidth, full power, any share of the
bandwidth, free downloads, no overheads, computing energy by the cubic law and no idle power.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.arrays import freeze_arrays

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CUBIC = -1
"""The place of a device's CPU table if it has none: its energy follows the cubic law."""


@dataclass(frozen=True)
class CpuTables:
    """The measured energy of computing, as efficient points, and which device has which table.

    The points of table i are first[i]:first[i + 1], by rising seconds per cycle and falling joules
    per cycle, convex. A device runs at a point or divides its cycles between two neighbours.
    """

    of_device: IntArray
    """For each device its table, or `CUBIC`."""
    first: IntArray
    s_per_cycle: FloatArray
    j_per_cycle: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def energy_j(
        self, cycles: FloatArray, cpu_hz: FloatArray, otherwise_j: FloatArray
    ) -> FloatArray:
        """The joules of computing at mean frequencies; `otherwise_j` where there is no table."""
        energy_j = np.array(otherwise_j, dtype=np.float64)
        for i in np.unique(self.of_device[self.of_device >= 0]).tolist():
            who = self.of_device == i
            part = slice(self.first[i], self.first[i + 1])
            per_cycle = np.interp(1.0 / cpu_hz[who], self.s_per_cycle[part], self.j_per_cycle[part])
            energy_j[who] = cycles[who] * per_cycle
        return energy_j


@dataclass(frozen=True)
class Laws:
    """How an edge round's physical layer departs from the paper's; None: as in the paper.

    Arrays have one value per device of the observation.
    """

    cn0_hz: FloatArray | None = None
    """The carrier-to-noise-density ratio p g / N0 at full power, in Hz: the bandwidth over which
    the SNR is 1. The rate is then b log2(1 + cn0 / b)."""
    power_control: bool = False
    """Whether a plan may give devices less than their full power; only with `cn0_hz`."""
    block_hz: float | None = None
    """Bandwidth is given in whole blocks of this width."""
    listen_s: FloatArray | None = None
    """The seconds that the edge model's broadcast takes at this device's rate; that of the slowest
    listener is the cluster's."""
    rx_power_w: FloatArray | None = None
    """The power of a device's radio while it listens."""
    idle_power_w: FloatArray | None = None
    """The power of a device from the end of its upload until its edge server has averaged."""
    overhead_s: float = 0.0
    """What an edge round takes beyond devices' times: latencies, and averaging at the server."""
    header_factor: float = 1.0
    """Bits on the air over the bits of messages. Observed bits already have it."""
    cpu: CpuTables | None = None
    """Measured computing energy."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def only(self, chosen: NDArray[np.bool_]) -> Laws:
        """The laws of some of the devices."""
        mine: dict[str, Any] = {
            f.name: value[chosen]
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), np.ndarray)
        }
        if self.cpu is not None:
            mine["cpu"] = replace(self.cpu, of_device=self.cpu.of_device[chosen])
        return replace(self, **mine) if mine else self

    @cached_property
    def changes_allocation(self) -> bool:
        """Whether the bandwidth and CPU frequency of least time are others than the paper's.

        A broadcast, overheads and headers add a constant to times and energies.
        """
        other = (self.cn0_hz, self.block_hz, self.cpu, self.idle_power_w)
        return self.power_control or any(value is not None for value in other)

    @cached_property
    def is_paper(self) -> bool:
        """Whether nothing departs from the paper."""
        return not self.changes_allocation and self.listen_s is None and self.overhead_s == 0.0


PAPER = Laws()
