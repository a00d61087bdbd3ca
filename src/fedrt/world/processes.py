"""Channels, edge bandwidths and link speeds as processes over rounds, asked for in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.errors import InputError
from fedrt.graph import BoolMatrix
from fedrt.registry import load_path
from fedrt.scenario.model import Custom, Rounds, Scenario
from fedrt.scenario.physical import Division, RateLaw, own_options, rate_law
from fedrt.scenario.processes import (
    BandwidthTrace,
    ChannelTrace,
    ConstantBackhaul,
    ConstantBandwidth,
    GaussMarkovSnr,
    PathLossSnr,
    ScaledTrace,
    Trace,
    UniformBackhaul,
    UniformBandwidth,
    UniformSnr,
)
from fedrt.seeding import normals, pair_uniforms, uniforms
from fedrt.system.plugins import load_plugin, own_code
from fedrt.validation import Real
from fedrt.world.fleet import FleetArrays
from fedrt.world.traces import gaps, read_trace, too_short

FloatArray = NDArray[np.float64]


class ChannelProcess(Protocol):
    """A process that gives the SNR of every device."""

    def snr_db(self, t: int, r: int) -> FloatArray:
        """The SNR of each device in dB, in edge round r of global round t."""
        ...


class BandwidthProcess(Protocol):
    """A process that gives the bandwidth of every edge server."""

    def hz(self, t: int, r: int) -> FloatArray:
        """The bandwidth of each edge server in Hz, in edge round r of global round t."""
        ...


class BackhaulProcess(Protocol):
    """A process that gives the speed of every backhaul link."""

    def bps(self, t: int) -> FloatArray:
        """The link speeds in bit/s in global round t: C x C, symmetric.

        Entries outside the base graph are ignored.
        """
        ...


class UniformChannel:
    """SNR drawn independently for every edge round, uniform in dB."""

    def __init__(self, settings: UniformSnr, fleet: FleetArrays, rounds: Rounds, seed: int) -> None:
        self.low, self.span = settings.low_db, settings.high_db - settings.low_db
        self.keys, self.seed = fleet.device_key, seed

    def snr_db(self, t: int, r: int) -> FloatArray:
        return self.low + self.span * uniforms(self.keys, self.seed, "snr", t, r)


class GaussMarkovChannel:
    """SNR as a stationary Gauss-Markov process with correlation rho between edge rounds.

    x' = rho x + sqrt(1 - rho^2) w.

    A value depends on all before it, so the last one is kept and an earlier round starts over.
    """

    def __init__(
        self, settings: GaussMarkovSnr, fleet: FleetArrays, rounds: Rounds, seed: int
    ) -> None:
        self.settings, self.keys, self.seed = settings, fleet.device_key, seed
        self.edge_rounds = rounds.edge_rounds
        self._restart()

    def _restart(self) -> None:
        self.step, self.value = 0, normals(self.keys, self.seed, "fading", 0)

    def snr_db(self, t: int, r: int) -> FloatArray:
        target = t * self.edge_rounds + r
        if target < self.step:
            self._restart()
        rho = self.settings.correlation
        while self.step < target:
            self.step += 1
            fresh = normals(self.keys, self.seed, "fading", self.step)
            self.value = rho * self.value + np.sqrt(1 - rho**2) * fresh
        return self.settings.mean_db + self.settings.std_db * self.value


class PathLossChannel:
    """SNR from log-distance path loss and shadowing, fixed per device, with optional fading."""

    def __init__(
        self, settings: PathLossSnr, fleet: FleetArrays, rounds: Rounds, seed: int
    ) -> None:
        keys = fleet.device_key
        if settings.positions_m is not None:
            distance_m = np.hypot(*np.array(settings.positions_m, dtype=np.float64)[keys].T)
        else:
            # The square root spreads devices evenly over the disc's area.
            distance_m = settings.radius_m * np.sqrt(uniforms(keys, seed, "distance"))
        loss_db = 10 * settings.exponent * np.log10(np.maximum(distance_m, 1.0))
        shadow_db = settings.shadowing_db * normals(keys, seed, "shadowing")
        self.mean_db = settings.snr_at_1m_db - loss_db + shadow_db
        self.fading_db, self.keys, self.seed = settings.fading_db, keys, seed

    def snr_db(self, t: int, r: int) -> FloatArray:
        if self.fading_db == 0:
            return self.mean_db
        return self.mean_db + self.fading_db * normals(self.keys, self.seed, "fading", t, r)


class TraceChannel:
    """SNR from a file with the columns global_round, edge_round, device, snr_db.

    Where the rate law asks for gains, the last column is gain_db. With `reuse` the file has any
    number of devices, and those of the fleet take them in turn.
    """

    def __init__(
        self, settings: ChannelTrace, fleet: FleetArrays, rounds: Rounds, seed: int
    ) -> None:
        devices = 0 if settings.reuse else fleet.num_devices
        sizes = {"global_round": 0, "edge_round": rounds.edge_rounds, "device": devices}
        value, rule = ("snr_db", q.SNR_DB)
        if rate_law(settings).gives_gains:
            value, rule = ("gain_db", q.GAIN_DB)
        self.table = whole_trace(settings, sizes, value, rule, rounds)
        self.keys = fleet.device_key % self.table.shape[2]

    def snr_db(self, t: int, r: int) -> FloatArray:
        return self.table[t % len(self.table), r][self.keys]


class ConstantEdgeBandwidth:
    """Bandwidth that never changes, the same for every edge server or one for each."""

    def __init__(self, settings: ConstantBandwidth, fleet: FleetArrays) -> None:
        given = np.multiply(settings.hz, settings.scale)
        self.fixed_hz = given[fleet.edge_key] if given.ndim else np.full(fleet.num_edges, given)

    def hz(self, t: int, r: int) -> FloatArray:
        return self.fixed_hz.copy()


class UniformEdgeBandwidth:
    """Bandwidth drawn independently for every edge round; constant if both ends are equal."""

    def __init__(self, low_hz: float, high_hz: float, fleet: FleetArrays, seed: int) -> None:
        self.low, self.span = low_hz, high_hz - low_hz
        self.keys, self.seed = fleet.edge_key, seed

    def hz(self, t: int, r: int) -> FloatArray:
        if self.span == 0:
            return np.full(len(self.keys), self.low)
        return self.low + self.span * uniforms(self.keys, self.seed, "bandwidth", t, r)


class TraceBandwidth:
    """Bandwidth from a file with the columns global_round, edge_round, edge, bandwidth_hz."""

    def __init__(self, settings: ScaledTrace, fleet: FleetArrays, rounds: Rounds) -> None:
        sizes = {"global_round": 0, "edge_round": rounds.edge_rounds, "edge": fleet.num_edges}
        table = whole_trace(settings, sizes, "bandwidth_hz", q.BANDWIDTH_HZ, rounds)
        self.table, self.keys = table * settings.scale, fleet.edge_key

    def hz(self, t: int, r: int) -> FloatArray:
        return self.table[t % len(self.table), r][self.keys]


class UniformLinks:
    """Link speeds drawn for every global round, equal in both directions.

    They are constant if both ends of the range are equal.
    """

    def __init__(self, low_bps: float, high_bps: float, fleet: FleetArrays, seed: int) -> None:
        self.low, self.span = low_bps, high_bps - low_bps
        self.keys, self.seed = fleet.edge_key, seed

    def bps(self, t: int) -> FloatArray:
        return self.low + self.span * pair_uniforms(self.keys, self.seed, "backhaul", t)


class TraceLinks:
    """Link speeds from a file with the columns global_round, edge, edge2, bps.

    A link may be given in either direction.
    """

    def __init__(
        self, settings: ScaledTrace, fleet: FleetArrays, rounds: Rounds, base_graph: BoolMatrix
    ) -> None:
        table = link_trace(settings, "bps", q.BACKHAUL_BPS, fleet, rounds, base_graph)
        self.table, self.keys = table * settings.scale, fleet.edge_key

    def bps(self, t: int) -> FloatArray:
        return self.table[t % len(self.table)][np.ix_(self.keys, self.keys)]


def link_trace(
    settings: Trace,
    value: str,
    rule: Real,
    fleet: FleetArrays,
    rounds: Rounds,
    base_graph: BoolMatrix,
) -> FloatArray:
    """A trace that gives a value for every link of the base graph; symmetric, 0 elsewhere."""
    sizes = {"global_round": 0, "edge": fleet.num_edges, "edge2": fleet.num_edges}
    table = read_trace(settings.file, sizes, value, rule)
    # One direction is enough; where both are given they must agree.
    other = np.swapaxes(table, 1, 2)
    differ = (table != other) & ~np.isnan(table) & ~np.isnan(other)
    if differ.any():
        t, c, c2 = np.unravel_index(int(np.argmax(differ)), table.shape)
        raise InputError(
            f"{settings.file}: global_round {t}: edge {c} to {c2} has {table[t, c, c2]:g} and"
            f" back {table[t, c2, c]:g}: must be the same"
        )
    table = np.where(np.isnan(table), other, table)
    place = np.argsort(fleet.edge_key)
    by_key = base_graph[np.ix_(place, place)]
    problems = too_short(settings.file, len(table), rounds.global_rounds, settings.repeat)
    problems += gaps(settings.file, table, list(sizes), np.triu(by_key)[None])
    if problems:
        raise InputError(problems)
    return np.nan_to_num(table)


def whole_trace(
    settings: Trace, sizes: dict[str, int], value: str, rule: Real, rounds: Rounds
) -> FloatArray:
    """A trace that gives every value of every round."""
    table = read_trace(settings.file, sizes, value, rule)
    problems = too_short(settings.file, len(table), rounds.global_rounds, settings.repeat)
    problems += gaps(settings.file, table, list(sizes), np.ones((1, 1, 1), dtype=bool))
    if problems:
        raise InputError(problems)
    return table


def make_channel(scenario: Scenario, fleet: FleetArrays, seed: int) -> ChannelProcess:
    """The process that the scenario's channel section describes."""
    settings = scenario.channel
    if isinstance(settings, Custom):
        options = own_options(settings, RateLaw)
        return _make_custom(settings, "channel", "snr_db", fleet, seed, options)
    channel: ChannelProcess = load_path(settings.process)(settings, fleet, scenario.rounds, seed)
    return channel


def make_bandwidth(scenario: Scenario, fleet: FleetArrays, seed: int) -> BandwidthProcess:
    """The process that the scenario's bandwidth section describes."""
    settings = scenario.bandwidth
    match settings:
        case ConstantBandwidth():
            return ConstantEdgeBandwidth(settings, fleet)
        case UniformBandwidth():
            low, high = settings.low_hz * settings.scale, settings.high_hz * settings.scale
            return UniformEdgeBandwidth(low, high, fleet, seed)
        case BandwidthTrace():
            return TraceBandwidth(settings, fleet, scenario.rounds)
        case Custom():
            own = own_options(settings, Division)
            return _make_custom(settings, "bandwidth", "hz", fleet, seed, own)
        case _:
            assert_never(settings)


def make_backhaul(
    scenario: Scenario, fleet: FleetArrays, base_graph: BoolMatrix, seed: int
) -> BackhaulProcess:
    """The process that the scenario's backhaul section describes."""
    settings = scenario.backhaul
    match settings:
        case ConstantBackhaul():
            bps = settings.bps * settings.scale
            return UniformLinks(bps, bps, fleet, seed)
        case UniformBackhaul():
            low, high = settings.low_bps * settings.scale, settings.high_bps * settings.scale
            return UniformLinks(low, high, fleet, seed)
        case ScaledTrace():
            return TraceLinks(settings, fleet, scenario.rounds, base_graph)
        case Custom():
            return _make_custom(settings, "backhaul", "bps", fleet, seed, settings.options)
        case _:
            assert_never(settings)


def _make_custom(
    settings: Custom,
    section: str,
    method: str,
    fleet: FleetArrays,
    seed: int,
    options: Mapping[str, Any],
) -> Any:
    """A user's process, made with the fleet, the seed and the section's other fields."""
    field = f"scenario.{section}.kind"
    plugin = load_plugin(settings.kind, field)
    with own_code(f"{field} = {settings.kind!r}: cannot be made"):
        process = plugin(fleet, seed, **options)
    if not callable(getattr(process, method, None)):
        raise InputError(f"{field} = {settings.kind!r}: must have a method {method}")
    return process
