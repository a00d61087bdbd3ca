"""What changes over rounds, as a user describes it: channels, bandwidths, link speeds, base graphs.

Values come from a law, from a file, or from a user's own class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedrt import quantities as q
from fedrt.scenario.physical import Division, RateLaw
from fedrt.scenario.tables.fields import one_or_list, setting
from fedrt.validation import Flag, Listed, Real, Text, Whole

MOST_EDGES = 10_000


@dataclass(frozen=True)
class Trace:
    """Values from a CSV or Parquet file (docs/scenarios.md has the columns)."""

    kind: ClassVar[str] = "trace"
    file: str = setting(Text())
    """The path of a .csv or .parquet file, as seen from the scenario file."""
    repeat: bool = setting(Flag(), False)
    """Start again from the first round when the trace ends."""


@dataclass(frozen=True)
class ScaledTrace(Trace):
    """A trace whose values are multiplied by `scale`."""

    scale: float = setting(q.SCALE, 1.0)
    """What all values are multiplied by."""


@dataclass(frozen=True)
class Custom:
    """A user's own class: its import path, and the options to make it with."""

    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class UniformSnr(RateLaw):
    """SNR drawn independently for every device and edge round, uniform in dB."""

    kind: ClassVar[str] = "uniform"
    process: ClassVar[str] = "fedrt.world.processes:UniformChannel"
    low_db: float = setting(q.CHANNEL_DB)
    """The least value."""
    high_db: float = setting(q.CHANNEL_DB)
    """The greatest value."""


@dataclass(frozen=True)
class GaussMarkovSnr(RateLaw):
    """SNR that moves slowly: a stationary first-order Gauss-Markov process in dB per device."""

    kind: ClassVar[str] = "gauss-markov"
    process: ClassVar[str] = "fedrt.world.processes:GaussMarkovChannel"
    mean_db: float = setting(q.CHANNEL_DB)
    """The mean."""
    std_db: float = setting(Real(least=0, most=50))
    """The standard deviation."""
    correlation: float = setting(Real(least=0, most=1))
    """From one edge round to the next: 0 is independent, 1 never changes."""


@dataclass(frozen=True)
class PathLossSnr(RateLaw):
    """SNR from where a device is: log-distance path loss, shadowing and fading.

    Positions are metres east and north of the device's own server; without them each device is
    placed uniformly in a disc of `radius_m`.
    """

    kind: ClassVar[str] = "path-loss"
    process: ClassVar[str] = "fedrt.world.processes:PathLossChannel"
    snr_at_1m_db: float = setting(Real(least=-100, most=300))
    """The SNR at a distance of one metre."""
    exponent: float = setting(Real(least=0, most=10), 3.0)
    """The path loss exponent: ten times as far away the SNR is 10 times this many dB lower."""
    radius_m: float = setting(Real(least=1, most=1e6), 200.0)
    """The radius of the disc in which devices are placed."""
    shadowing_db: float = setting(Real(least=0, most=50), 6.0)
    """Deviation of the shadowing by obstacles, drawn once for each device."""
    fading_db: float = setting(Real(least=0, most=50), 0.0)
    """Deviation of the fading, which is drawn for every edge round."""
    positions_m: tuple[tuple[float, float], ...] | None = setting(
        Listed(Listed(Real(least=-1e6, most=1e6), 2, 2)), None
    )
    """Where each device is, as [east, north] of its own edge server; by default it is drawn."""


@dataclass(frozen=True)
class ConstantBandwidth(Division):
    """A bandwidth that never changes: the same for every edge server, or one for each."""

    kind: ClassVar[str] = "constant"
    hz: float | tuple[float, ...] = setting(one_or_list(q.BANDWIDTH_HZ))
    """The bandwidth: one number for all edge servers, or one for each."""
    scale: float = setting(q.SCALE, 1.0)
    """What all bandwidths are multiplied by."""


@dataclass(frozen=True)
class UniformBandwidth(Division):
    """An edge server's bandwidth, drawn independently for every edge round."""

    kind: ClassVar[str] = "uniform"
    low_hz: float = setting(q.BANDWIDTH_HZ)
    """The least value."""
    high_hz: float = setting(q.BANDWIDTH_HZ)
    """The greatest value."""
    scale: float = setting(q.SCALE, 1.0)
    """What all bandwidths are multiplied by."""


@dataclass(frozen=True)
class ConstantBackhaul:
    """Every link has the same speed, always."""

    kind: ClassVar[str] = "constant"
    bps: float = setting(q.BACKHAUL_BPS)
    """The speed of every link, in bit/s."""
    scale: float = setting(q.SCALE, 1.0)
    """What all speeds are multiplied by."""


@dataclass(frozen=True)
class UniformBackhaul:
    """A link's speed, equal in both directions, drawn independently for every global round."""

    kind: ClassVar[str] = "uniform"
    low_bps: float = setting(q.BACKHAUL_BPS)
    """The least value, in bit/s."""
    high_bps: float = setting(q.BACKHAUL_BPS)
    """The greatest value, in bit/s."""
    scale: float = setting(q.SCALE, 1.0)
    """What all speeds are multiplied by."""


@dataclass(frozen=True)
class CompleteGraph:
    """Every server linked to every other."""

    kind: ClassVar[str] = "complete"


@dataclass(frozen=True)
class RingGraph:
    """Each server linked to the next."""

    kind: ClassVar[str] = "ring"


@dataclass(frozen=True)
class StarGraph:
    """Every server linked to the first."""

    kind: ClassVar[str] = "star"


@dataclass(frozen=True)
class ErdosRenyiGraph:
    """Each link present with one probability; drawn again until connected."""

    kind: ClassVar[str] = "erdos-renyi"
    probability: float = setting(Real(least=0, most=1))
    """Of each link, by itself."""


@dataclass(frozen=True)
class LinkListGraph:
    """The links as pairs of servers, counted from 0."""

    kind: ClassVar[str] = "links"
    links: tuple[tuple[int, int], ...] = setting(Listed(Listed(Whole(0, MOST_EDGES - 1), 2, 2)))
    """One pair of servers for each link."""


@dataclass(frozen=True)
class ChannelTrace(Trace, RateLaw):
    """The values of every device's channel from a file."""

    process: ClassVar[str] = "fedrt.world.processes:TraceChannel"

    reuse: bool | None = setting(Flag(), None)
    """Whether the file may have fewer or more devices: device n takes the values of n modulo their
    number."""


@dataclass(frozen=True)
class BandwidthTrace(ScaledTrace, Division):
    """The bandwidth of every edge server from a file."""


Channel = RateLaw | Custom
Bandwidth = ConstantBandwidth | UniformBandwidth | BandwidthTrace | Custom
BackhaulSpeed = ConstantBackhaul | UniformBackhaul | ScaledTrace | Custom
BaseGraph = CompleteGraph | RingGraph | StarGraph | ErdosRenyiGraph | LinkListGraph
