"""What a user describes: fleet, rounds, channels, backhaul, learning task and control.

Frozen and checked once, when read. Units are in the names; `snr` is in dB only here, where people
type it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt import quantities as q
from fedrt.checks import Flag, Listed, OneOf, Real, Text, Whole
from fedrt.scenario.fields import Kinds, PerDevice, PerDeviceRule, Section, setting, word_or

SCHEMA_VERSION = 1
MOST_EDGES = 10_000
MOST_DEVICES = 10_000_000


@dataclass(frozen=True)
class Fleet:
    """The devices and the edge servers they belong to."""

    num_edges: int = setting(Whole(1, MOST_EDGES))
    num_devices: int = setting(Whole(1, MOST_DEVICES))
    cycles_per_sample: PerDevice = setting(PerDeviceRule(q.CYCLES))
    capacitance: PerDevice = setting(PerDeviceRule(q.CAPACITANCE))
    tx_power_w: PerDevice = setting(PerDeviceRule(q.TX_POWER_W))
    cpu_min_hz: PerDevice = setting(PerDeviceRule(q.CPU_HZ))
    cpu_max_hz: PerDevice = setting(PerDeviceRule(q.CPU_HZ))
    energy_j_per_edge_round: PerDevice | None = setting(PerDeviceRule(q.BUDGET_J), None)
    energy_budget_j: PerDevice | None = setting(PerDeviceRule(q.BUDGET_J), None)
    cluster_sizes: str | tuple[int, ...] = setting(
        word_or(("even", "uneven"), Listed(Whole(1, MOST_DEVICES), least=1)), "even"
    )
    """`even`, `uneven` (fixed proportions between 0.2 and 1.8 of the mean), or one per edge."""


@dataclass(frozen=True)
class Rounds:
    """How long training goes on."""

    global_rounds: int = setting(Whole(1, 1_000_000))
    edge_rounds: int = setting(Whole(1, 10_000), 2)
    local_steps: int = setting(q.LOCAL_STEPS, 10)
    gossip_steps: int = setting(q.GOSSIP_STEPS, 10)


@dataclass(frozen=True)
class UniformSnr:
    """SNR drawn anew for every device and edge round, uniform in dB."""

    kind: ClassVar[str] = "uniform"
    low_db: float = setting(q.SNR_DB)
    high_db: float = setting(q.SNR_DB)


@dataclass(frozen=True)
class ConstantBandwidth:
    """Every edge server has the same bandwidth, always."""

    kind: ClassVar[str] = "constant"
    hz: float = setting(q.BANDWIDTH_HZ)


@dataclass(frozen=True)
class UniformBandwidth:
    """An edge server's bandwidth, drawn anew every edge round."""

    kind: ClassVar[str] = "uniform"
    low_hz: float = setting(q.BANDWIDTH_HZ)
    high_hz: float = setting(q.BANDWIDTH_HZ)


@dataclass(frozen=True)
class ConstantBackhaul:
    """Every link has the same speed, always."""

    kind: ClassVar[str] = "constant"
    bps: float = setting(q.BACKHAUL_BPS)


@dataclass(frozen=True)
class UniformBackhaul:
    """A link's speed, the same both ways, drawn anew every global round."""

    kind: ClassVar[str] = "uniform"
    low_bps: float = setting(q.BACKHAUL_BPS)
    high_bps: float = setting(q.BACKHAUL_BPS)


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


@dataclass(frozen=True)
class LinkListGraph:
    """The links as pairs of servers, counted from 0."""

    kind: ClassVar[str] = "links"
    links: tuple[tuple[int, int], ...] = setting(Listed(Listed(Whole(0, MOST_EDGES - 1), 2, 2)))


@dataclass(frozen=True)
class IidPartition:
    """Every device holds an equal random share."""

    kind: ClassVar[str] = "iid"


@dataclass(frozen=True)
class DirichletPartition:
    """Uneven classes: `device` draws each device's class mix, `class` splits each class."""

    kind: ClassVar[str] = "dirichlet"
    concentration: float = setting(Real(above=0, most=1e6), 1.0)
    form: str = setting(OneOf(("device", "class")), "device")


@dataclass(frozen=True)
class PathologicalPartition:
    """Each cluster holds a few labels only; inside a cluster all is even."""

    kind: ClassVar[str] = "cluster-pathological"
    labels_per_cluster: int = setting(Whole(1, 1000))


@dataclass(frozen=True)
class WriterPartition:
    """Each device holds the samples of one writer."""

    kind: ClassVar[str] = "writer"


@dataclass(frozen=True)
class Learning:
    """The learning task. `model_bits` is what a device uploads: 32 bit a parameter."""

    dataset: str = setting(Text(200))
    model: str = setting(Text(200))
    model_bits: float = setting(q.MODEL_BITS)
    learning_rate: float = setting(Real(above=0, most=1e3))
    batch_size: int = setting(Whole(1, 1_000_000), 32)
    momentum: float = setting(Real(least=0, most=0.9999), 0.9)
    augment: bool = setting(Flag(), False)
    evaluate_every: int = setting(Whole(1, 1_000_000), 5)
    partition: IidPartition | DirichletPartition | PathologicalPartition | WriterPartition = (
        setting(
            Kinds((IidPartition, DirichletPartition, PathologicalPartition, WriterPartition)),
            IidPartition(),
        )
    )


@dataclass(frozen=True)
class Control:
    """What the controller may do."""

    kappa: float = setting(Real(least=0, most=1), 0.5)
    """Consensus limit between no pruning (0) and connectivity alone (1)."""
    mixing: str = setting(OneOf(("metropolis", "best-constant")), "metropolis")
    budgets: str = setting(OneOf(("best-effort", "strict")), "best-effort")
    energy_horizon: str = setting(OneOf(("policy", "paper", "exact")), "policy")
    """How a budget is spread over the rest of a run; `policy` leaves it to each policy."""


@dataclass(frozen=True)
class Scenario:
    """A whole description, as one file holds it."""

    name: str = setting(Text(200))
    description: str = setting(Text(2000))
    fleet: Fleet = setting(Section(Fleet))
    rounds: Rounds = setting(Section(Rounds))
    channel: UniformSnr = setting(Kinds((UniformSnr,)))
    bandwidth: ConstantBandwidth | UniformBandwidth = setting(
        Kinds((ConstantBandwidth, UniformBandwidth))
    )
    backhaul: ConstantBackhaul | UniformBackhaul = setting(
        Kinds((ConstantBackhaul, UniformBackhaul))
    )
    learning: Learning = setting(Section(Learning))
    base_graph: CompleteGraph | RingGraph | StarGraph | ErdosRenyiGraph | LinkListGraph = setting(
        Kinds((CompleteGraph, RingGraph, StarGraph, ErdosRenyiGraph, LinkListGraph)),
        CompleteGraph(),
    )
    control: Control = setting(Section(Control), Control())
    schema_version: int = setting(Whole(SCHEMA_VERSION, SCHEMA_VERSION), SCHEMA_VERSION)
