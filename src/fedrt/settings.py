"""The sections of a scenario as tables of Python code, for completion and type checkers.

They have the settings of `scenario.model`, which checks the values; a setting that is added there
is added here. None takes a setting away. `Any` stands where there may be a class, a function or an
object in the place of an import path, and for tables with a `kind`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from pathlib import Path

    from fedrt.scenario.model import Control, Fleet, Learning, Rounds
    from fedrt.scenario.physical import CpuTable, Downlink, Overheads

PerDeviceValue = float | Sequence[float] | Mapping[str, Sequence[float]] | Any
"""One value for all devices, one for each, or `{"uniform": [low, high]}`."""


class ClassSettings(TypedDict, total=False):
    """The settings of one of `[[fleet.classes]]`; those of each device are the fleet's."""

    name: str
    share: float
    count: int
    edges: Sequence[int]
    per_edge: bool
    cycles_per_sample: PerDeviceValue | str
    capacitance: PerDeviceValue
    tx_power_w: PerDeviceValue
    cpu_min_hz: PerDeviceValue
    cpu_max_hz: PerDeviceValue
    energy_j_per_edge_round: PerDeviceValue | str
    energy_budget_j: PerDeviceValue | str
    idle_power_w: PerDeviceValue
    rx_power_w: PerDeviceValue
    cpu_table: CpuTableSettings | CpuTable | None


class CpuTableSettings(TypedDict, total=False):
    """The settings of a `cpu_table`."""

    hz: Sequence[float] | None
    power_w: Sequence[float] | None
    joules_per_cycle: Sequence[float] | None
    file: str | Path | None


class FleetSettings(TypedDict, total=False):
    """The settings of `[fleet]`."""

    num_edges: int
    num_devices: int
    cycles_per_sample: PerDeviceValue | str
    capacitance: PerDeviceValue
    tx_power_w: PerDeviceValue
    cpu_min_hz: PerDeviceValue
    cpu_max_hz: PerDeviceValue
    energy_j_per_edge_round: PerDeviceValue | None
    energy_budget_j: PerDeviceValue | None
    cluster_sizes: str | Sequence[int]
    idle_power_w: PerDeviceValue | None
    rx_power_w: PerDeviceValue | None
    cpu_table: CpuTableSettings | CpuTable | None
    classes: Sequence[ClassSettings] | Mapping[str, ClassSettings | None] | None
    budget_scale: float | None


class RoundsSettings(TypedDict, total=False):
    """The settings of `[rounds]`."""

    global_rounds: int
    edge_rounds: int
    local_steps: int
    gossip_steps: int


class LearningSettings(TypedDict, total=False):
    """The settings of `[learning]`."""

    dataset: Any
    model: Any
    model_bits: float | str
    model_buffers: int | None
    learning_rate: float
    batch_size: int
    momentum: float
    optimiser: Any
    schedule: Any
    clip_norm: float | None
    proximal: float | None
    scaffold: bool | None
    upload: Any
    update: Sequence[Any] | None
    top_k: float | None
    gossip: str | None
    task: Any
    normalise: Any
    augment: bool
    averaging: Any
    server_optimiser: Any
    screening: bool | None
    refuse_norm: float | None
    trim: float | None
    participation: float
    dtype: str
    evaluate_every: int
    device_evaluation: Any
    partition: Any


class ControlSettings(TypedDict, total=False):
    """The settings of `[control]`."""

    kappa: float
    mixing: str
    budgets: str
    energy_horizon: str
    contraction_limit: float | str
    codecs: Sequence[str] | None
    distortion_limit: float | str | None


class DownlinkSettings(TypedDict, total=False):
    """The settings of `[downlink]`."""

    tx_power_w: float
    hz: float | None
    bits: float | None
    snr_db: PerDeviceValue | None


class OverheadsSettings(TypedDict, total=False):
    """The settings of `[overheads]`."""

    header_factor: float
    round_trip_s: float
    aggregation_s: float


class Sections(TypedDict, total=False):
    """The sections of a scenario, each as a table or as the section of another scenario."""

    name: str
    description: str
    fleet: FleetSettings | Fleet
    rounds: RoundsSettings | Rounds
    channel: Any
    bandwidth: Any
    backhaul: Any
    learning: LearningSettings | Learning
    base_graph: Any
    control: ControlSettings | Control
    faults: Any
    downlink: DownlinkSettings | Downlink | None
    overheads: OverheadsSettings | Overheads | None
    schema_version: int
