"""The settings of the physical layer: rate law, resource blocks, downlink and overheads.

docs/cost-model.md has the equations. Every default is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fedrt import quantities as q
from fedrt.scenario.classes import path_of, settings_in
from fedrt.scenario.tables.fields import PerDevice, PerDeviceRule, read_table, setting
from fedrt.validation import Flag, Listed, OneOf, Real, Text

FIXED, NOISE_DENSITY = "fixed-snr", "noise-density"
MOST_POINTS = 1000
POWER_W = Real(above=0, most=1e6)
CYCLE_J = Real(above=0, most=1e6)


@dataclass(frozen=True, kw_only=True)
class RateLaw:
    """How a device's rate depends on its bandwidth; part of every `[channel]`."""

    process: ClassVar[str] = ""
    """The class of a channel with such settings, "module:Name", made with them, the fleet, the
    numbers of rounds and the seed."""
    law: str | None = setting(OneOf((FIXED, NOISE_DENSITY)), None)
    """`fixed-snr`, the default: b log2(1 + SNR). `noise-density`: b log2(1 + p g / (N0 b))."""
    reference_hz: float | None = setting(q.BANDWIDTH_HZ, None)
    """Under `noise-density`: the bandwidth over which the channel's values are SNRs. Without it
    they are gains g in dB."""
    noise_dbm_per_hz: float | None = setting(Real(least=-250, most=0), None)
    """N0 in dBm per hertz; by default -174, thermal noise at room temperature."""
    noise_figure_db: float | None = setting(Real(least=0, most=50), None)
    """What the receiver adds to the noise; by default 0."""
    power_control: bool | None = setting(Flag(), None)
    """Under `noise-density`: whether plans may lower the radios' power below `tx_power_w`."""

    @property
    def spreads_noise(self) -> bool:
        return self.law == NOISE_DENSITY

    @property
    def gives_gains(self) -> bool:
        """Whether the channel's values are gains and not SNRs."""
        return self.spreads_noise and self.reference_hz is None

    @property
    def noise_w_per_hz(self) -> float:
        """N0 with the receiver's noise figure, in W/Hz."""
        density = -174.0 if self.noise_dbm_per_hz is None else self.noise_dbm_per_hz
        return float(10 ** ((density + (self.noise_figure_db or 0.0) - 30.0) / 10))


@dataclass(frozen=True, kw_only=True)
class Division:
    """How finely bandwidth can be divided; part of every `[bandwidth]`."""

    block_hz: float | None = setting(q.BANDWIDTH_HZ, None)
    """The width of a resource block; devices get whole blocks. By default any share."""


@dataclass(frozen=True)
class CpuTable:
    """The measured energy of computing: points of frequency and power, or energy per cycle.

    A device uses the efficient ones between its `cpu_min_hz` and `cpu_max_hz`.
    """

    hz: tuple[float, ...] | None = setting(Listed(q.CPU_HZ, 1, MOST_POINTS), None)
    """The frequencies of the points."""
    power_w: tuple[float, ...] | None = setting(Listed(POWER_W, 1, MOST_POINTS), None)
    """What computing draws at each of them; this or `joules_per_cycle`."""
    joules_per_cycle: tuple[float, ...] | None = setting(Listed(CYCLE_J, 1, MOST_POINTS), None)
    """What a cycle takes at each of them."""
    file: str | None = setting(Text(), None)
    """A CSV file with the columns hz and power_w, or hz and joules_per_cycle."""


@dataclass(frozen=True)
class Downlink:
    """The broadcast of the edge model to its devices, at the slowest listener's rate."""

    tx_power_w: float = setting(Real(above=0, most=1e6))
    """The edge server's power."""
    hz: float | None = setting(q.BANDWIDTH_HZ, None)
    """The bandwidth of the broadcast; by default all of the edge server's."""
    bits: float | None = setting(q.MODEL_BITS, None)
    """The length of the model that is broadcast; by default `learning.model_bits`."""
    snr_db: PerDevice | None = setting(PerDeviceRule(q.SNR_DB), None)
    """Each device's SNR over the whole of that bandwidth; by default its uplink's channel, with
    the server's power in the place of the device's."""


@dataclass(frozen=True)
class Overheads:
    """What messages and averaging take beyond the bits of a model."""

    header_factor: float = setting(Real(least=1, most=100), 1.0)
    """Bits on the air over the bits of a message."""
    round_trip_s: float = setting(q.SECONDS, 0.0)
    """What each message takes beyond its bits: an upload, a broadcast, a gossip step."""
    aggregation_s: float = setting(q.SECONDS, 0.0)
    """What an edge server takes to average the updates of an edge round."""

    def of_an_edge_round_s(self, *, downlink: bool) -> float:
        """The seconds of an edge round beyond its devices': those of its messages, and averaging.

        Devices send at once, so that an upload counts once; a broadcast is one more message.
        """
        return (2 if downlink else 1) * self.round_trip_s + self.aggregation_s


def rate_law(channel: Any) -> RateLaw:
    """The rate law of a `[channel]`; a user's own channel has it among its options."""
    return channel if isinstance(channel, RateLaw) else _of_options(RateLaw, channel)


def division_of(bandwidth: Any) -> Division:
    """How finely a `[bandwidth]` can be divided; a user's own has it among its options."""
    return bandwidth if isinstance(bandwidth, Division) else _of_options(Division, bandwidth)


def own_options(section: Any, cls: type[Any]) -> dict[str, Any]:
    """The options that a user's own channel or bandwidth is made with: those not read here."""
    names = {f.name for f in fields(cls)}
    return {name: value for name, value in section.options.items() if name not in names}


def option_problems(path: str, section: Any, cls: type[Any]) -> list[str]:
    """One line for each setting of a user's own section that cannot be what `cls` says."""
    problems: list[str] = []
    if hasattr(section, "options"):
        read_table(cls, _options(section, cls), path, problems)
    return problems


def _options(section: Any, cls: type[Any]) -> dict[str, Any]:
    return {f.name: section.options[f.name] for f in fields(cls) if f.name in section.options}


def _of_options(cls: type[Any], section: Any) -> Any:
    return cls(**_options(section, cls))


def law_problems(channel: Any, least_w: float) -> list[str]:
    """One line for each rule between the settings of a rate law that is broken."""
    law, path = rate_law(channel), "scenario.channel"
    lines = option_problems(path, channel, RateLaw)
    if lines:
        return lines
    for name in ("reference_hz", "noise_dbm_per_hz", "noise_figure_db", "power_control"):
        if getattr(law, name) is not None and not law.spreads_noise:
            lines.append(f'{path}.{name}: only goes with law = "{NOISE_DENSITY}"')
    if law.reference_hz is not None:
        for name in ("noise_dbm_per_hz", "noise_figure_db"):
            if getattr(law, name) is not None:
                lines.append(f"{path}.{name}: give it or reference_hz, not both")
    if law.spreads_noise and least_w <= 0:
        rule = f'> 0 with channel.law = "{NOISE_DENSITY}"'
        lines.append(f"scenario.fleet.tx_power_w = {least_w:g}: must be {rule}")
    ends, what = (q.GAIN_DB, "a gain") if law.gives_gains else (q.SNR_DB, "an SNR")
    for name in ("low_db", "high_db", "mean_db", *(("snr_at_1m_db",) if law.gives_gains else ())):
        value = getattr(channel, name, None)
        if value is not None and not ends.holds(value):
            more = f"; or give {path}.reference_hz, over which it is an SNR"
            more = more if law.gives_gains else ""
            lines.append(f"{path}.{name} = {value:g}: must be {ends.wording}, as {what}{more}")
    return lines


def cpu_table_problems(path: str, table: CpuTable | None) -> list[str]:
    """A line if a table is not in one of its forms."""
    if table is None:
        return []
    given = [n for n in ("power_w", "joules_per_cycle") if getattr(table, n) is not None]
    if table.file is not None:
        alone = table.hz is None and not given
        return [] if alone else [f"{path}: must have file, or hz and power_w, not both"]
    if table.hz is None or len(given) != 1:
        return [f"{path}: must have hz, and power_w or joules_per_cycle; or file"]
    values = getattr(table, given[0])
    if len(values) != len(table.hz):
        rule = f"one for each of hz ({len(table.hz)})"
        return [f"{path}.{given[0]} has {len(values)} values: must be {rule}"]
    return []


def physical_problems(scenario: Any) -> list[str]:
    """One line for each rule between the settings of the physical layer that is broken."""
    fleet, path = scenario.fleet, "scenario.bandwidth"
    least_w = min(given.low for given in settings_in(fleet, "tx_power_w"))
    lines = law_problems(scenario.channel, least_w)
    lines += option_problems(path, scenario.bandwidth, Division)
    lines += cpu_table_problems("scenario.fleet.cpu_table", fleet.cpu_table)
    for k, each in enumerate(fleet.classes or ()):
        table = each.settings.get("cpu_table")
        lines += cpu_table_problems(f"{path_of(fleet, k)}.cpu_table", table)
    downlink = scenario.downlink
    if downlink is None:
        return lines
    given = downlink.snr_db
    if given is None and least_w <= 0:
        rule = "> 0 with a downlink, or give downlink.snr_db"
        lines.append(f"scenario.fleet.tx_power_w = {least_w:g}: must be {rule}")
    if given is not None and given.values and len(given.values) != fleet.num_devices:
        rule = f"one for all or one per device ({fleet.num_devices})"
        lines.append(f"scenario.downlink.snr_db has {len(given.values)} values: must be {rule}")
    return lines
