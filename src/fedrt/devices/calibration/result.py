"""What was measured of a device, and its class in a scenario as TOML text."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from fedrt.devices.calibration.fit import StepFit
from fedrt.devices.calibration.network import PACKET, SEGMENT, UploadTimes

FIXED = 0.02
"""A fixed part of a step above this share of it is told; below, it is noise."""
MOST_ERROR = 0.25
"""The relative error of a share's median up to which a fit describes a device.

Every plan with the class misses the device's seconds of training by as much, and its joules by
more: energy goes with the square of the frequency.
"""


@dataclass(frozen=True)
class Calibration:
    """A device as it was measured: `fedrt calibrate`."""

    device: str
    edge: int
    """The edge server that the scenario gives it to."""
    cpu: str
    """What held it to the shares: duty, cgroup, cpufreq, or none."""
    cpu_share: float
    """The share of the processor that stands for `cpu_max_hz`."""
    cpu_max_hz: float
    batch_size: int
    seconds: dict[float, list[float]]
    """For every share of full speed, the seconds of a local step, as often as it was measured."""
    fit: StepFit
    tls_factor: float
    """Bytes that TLS and gRPC make of an update, over its own."""
    update_bytes: int
    upload: UploadTimes | None = None
    """Uploads to the edge server; None where it was not reached."""
    radio_bps: float = 0.0
    """The rate of the scenario's radio in the edge server's whole bandwidth, in the first round."""
    notes: list[str] = field(default_factory=list)
    """What could not be measured, and why."""
    watts: dict[float, float] = field(default_factory=dict)
    """For every share, the power while it trained, where there is a meter."""
    path: Path | None = None
    """Where the class was written."""

    @property
    def cycles_per_sample(self) -> float:
        """What training on a sample takes."""
        return self.fit.cycles_per_sample(self.cpu_max_hz, self.batch_size)

    @property
    def problem(self) -> str | None:
        """Why the class would not describe the device; None if it does."""
        fit = self.fit
        if fit.typical_error <= MOST_ERROR:
            return None
        why = (
            f"measurements at one share lie {100 * fit.spread:.0f} % apart, as on a machine that is"
            " busy or changes its speed"
        )
        if fit.fixed_s is not None and fit.scaled_s is not None and fit.spread < fit.typical_error:
            why = "the time of a step does not go as one over the share"
            if fit.fixed_s > 0:
                part = 100 * fit.fixed_s / (fit.fixed_s + fit.scaled_s)
                why += f": {part:.0f} % of it at full speed is the same at every share"
        return (
            f"{self.device}: the fit is {100 * fit.typical_error:.1f} % off the median at some"
            f" share, must be at most {100 * MOST_ERROR:.0f} %: {why}"
        )

    @property
    def header_factor(self) -> float:
        """Bits on the wire over the bits of an update, in full packets of 1500 bytes."""
        return self.tls_factor * PACKET / SEGMENT

    @property
    def efficiency(self) -> float | None:
        """The rate of uploads over that of the scenario's radio; None where none was measured."""
        if self.upload is None or not self.radio_bps > 0:
            return None
        return self.upload.wire_bps(self.header_factor) / self.radio_bps

    def lines(self) -> list[str]:
        """What was measured, and how, in sentences."""
        held = "nothing held the CPU" if self.cpu == "none" else f"{self.cpu} held the CPU"
        found = [
            f"{held}; full speed is {self.cpu_share:g} of a core and stands for"
            f" {self.cpu_max_hz:g} Hz; steps of {self.batch_size} samples"
        ]
        for share, each in self.seconds.items():
            power = f", {self.watts[share]:.3g} W" if share in self.watts else ""
            found.append(
                f"share {share:g}: {1e3 * statistics.median(each):.4g} ms a step"
                f" ({1e3 * min(each):.4g} to {1e3 * max(each):.4g}, {len(each)} times){power}"
            )
        fit = self.fit
        found.append(
            f"fit: {1e3 * fit.full_s:.4g} ms a step at full speed, over the share elsewhere;"
            f" worst error {100 * fit.worst_error:.1f} %, spread {100 * fit.spread:.1f} %"
        )
        if fit.fixed_s is not None and fit.scaled_s is not None:
            whole = fit.fixed_s + fit.scaled_s
            big = abs(fit.fixed_s) > FIXED * whole
            found.append(
                f"fixed part of a step: {1e3 * fit.fixed_s:.3g} ms"
                f" ({100 * fit.fixed_s / whole:.1f} %{'' if big else ', next to nothing'});"
                f" with it, R^2 = {fit.r_squared:.4f}"
            )
        problem = [] if self.problem is None else [self.problem]
        return [*found, *problem, *self._upload_lines(), *self.notes]

    def _upload_lines(self) -> list[str]:
        found = [
            f"headers: TLS and gRPC {self.tls_factor:.4f}, counted on loopback with"
            f" {self.update_bytes} bytes; TCP, IP and Ethernet {PACKET / SEGMENT:.4f}"
        ]
        if self.upload is not None:
            each = self.upload.seconds
            found.append(
                f"upload of {self.upload.length} bytes to the edge server:"
                f" {statistics.median(each):.4g} s ({min(each):.4g} to {max(each):.4g}),"
                f" {self.upload.wire_bps(self.header_factor) / 1e6:.4g} Mbit/s with headers"
            )
        if self.efficiency is not None:
            found.append(
                f"upload efficiency: {self.efficiency:.3g} of the scenario's radio in the whole"
                " bandwidth of the edge server, in the first round"
            )
        return found

    def text(self) -> str:
        """The device's class for a scenario, ready to be pasted, with how it was measured."""
        head = [f"{self.device} as `fedrt calibrate` has measured it:", *self.lines()]
        trip = [f"round_trip_s = {self.upload.round_trip_s:.6g}"] if self.upload else []
        return "\n".join(
            [
                *(f"# {line}" for line in head),
                "",
                "# Of the whole scenario: one table, whichever device it was measured on.",
                "[overheads]",
                f"header_factor = {self.header_factor:.4f}",
                *trip,
                "",
                "# Other devices need classes too, or one without a count that takes the rest.",
                "[[fleet.classes]]",
                f'name = "{self.device}"',
                "count = 1",
                f"edges = [{self.edge}]",
                f"cpu_max_hz = {self.cpu_max_hz!r}",
                f"cycles_per_sample = {float(f'{self.cycles_per_sample:.6g}')!r}",
                "",
            ]
        )
