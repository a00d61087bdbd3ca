"""The settings of a scenario: fleet, rounds, channels, backhaul, learning and control.

Frozen and checked once, when read. Units are in the names; `snr` is in dB only here, where people
type it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from fedrt import quantities as q
from fedrt.errors import InputError
from fedrt.messages import GOSSIP_CODECS, SELECTABLE, UNCOMPRESSED, UPLOADS
from fedrt.registry import (
    AGGREGATORS,
    CHANNELS,
    OPTIMISERS,
    SCHEDULES,
    SERVER_OPTIMISERS,
    TASKS,
    TRANSFORMS,
)
from fedrt.scenario.classes import ClassesRule, DeviceClass, FleetSection, settings_in
from fedrt.scenario.faults import Faults
from fedrt.scenario.methods import (
    PARTITIONS,
    DeviceEvaluation,
    Normalisation,
    Schedule,
)
from fedrt.scenario.methods import BootstrapPartition as BootstrapPartition
from fedrt.scenario.methods import DirichletPartition as DirichletPartition
from fedrt.scenario.methods import IidPartition as IidPartition
from fedrt.scenario.methods import OwnerPartition as OwnerPartition
from fedrt.scenario.methods import Partition as Partition
from fedrt.scenario.methods import PathologicalPartition as PathologicalPartition
from fedrt.scenario.methods import WriterPartition as WriterPartition
from fedrt.scenario.physical import CpuTable, Downlink, Overheads
from fedrt.scenario.processes import (
    MOST_EDGES,
    BackhaulSpeed,
    Bandwidth,
    BandwidthTrace,
    BaseGraph,
    Channel,
    CompleteGraph,
    ConstantBackhaul,
    ConstantBandwidth,
    ErdosRenyiGraph,
    LinkListGraph,
    RingGraph,
    ScaledTrace,
    StarGraph,
    UniformBackhaul,
    UniformBandwidth,
)
from fedrt.scenario.processes import Custom as Custom
from fedrt.scenario.rules import broken_rules, fault_problems
from fedrt.scenario.tables.fields import (
    EntryRule,
    Kinds,
    PerDevice,
    PerDeviceRule,
    Section,
    per_device,
    read_table,
    setting,
    table_of,
    word_or,
)
from fedrt.scenario.tables.layers import overlay, plain, without_none
from fedrt.validation import Either, Flag, Listed, OneOf, Real, Text, Whole

if TYPE_CHECKING:
    from fedrt.settings import Sections

SCHEMA_VERSION = 1
MEASURED = "measured"
MOST_DEVICES = 10_000_000
MOST_ROUNDS = 1_000_000


@dataclass(frozen=True)
class Fleet:
    """The devices and the edge servers they belong to."""

    num_edges: int = setting(Whole(1, MOST_EDGES))
    """How many edge servers there are, each with a cluster of devices."""
    num_devices: int = setting(Whole(1, MOST_DEVICES))
    """How many devices there are in all clusters together."""
    cycles_per_sample: PerDevice | str | None = per_device(
        word_or((MEASURED,), PerDeviceRule(q.CYCLES)), needed=True
    )
    """What training on a sample takes; `measured`: 3 x the forward multiply-adds of the model."""
    capacitance: PerDevice | None = per_device(PerDeviceRule(q.CAPACITANCE), needed=True)
    """Of the processor: a cycle at f hertz takes half of it times f^2 joules."""
    tx_power_w: PerDevice | None = per_device(PerDeviceRule(q.TX_POWER_W), needed=True)
    """What the radio sends with."""
    cpu_min_hz: PerDevice | None = per_device(PerDeviceRule(q.CPU_HZ), needed=True)
    """The lowest frequency at which a plan may let the processor run."""
    cpu_max_hz: PerDevice | None = per_device(PerDeviceRule(q.CPU_HZ), needed=True)
    """The highest one."""
    energy_j_per_edge_round: PerDevice | None = per_device(PerDeviceRule(q.BUDGET_J))
    """The energy budget of a device as joules for each edge round of the run. Without this and
    `energy_budget_j`, and with `none`, energy is not limited."""
    energy_budget_j: PerDevice | None = per_device(PerDeviceRule(q.BUDGET_J))
    """The energy budget of a device for the whole run; the other form of the same budget."""
    cluster_sizes: str | tuple[int, ...] = setting(
        word_or(("even", "uneven"), Listed(Whole(1, MOST_DEVICES), least=1)), "even"
    )
    """How many devices each edge server has: `even`, `uneven` (fixed proportions between 0.2 and
    1.8 of the mean), or one number for each."""
    idle_power_w: PerDevice | None = per_device(PerDeviceRule(q.TX_POWER_W))
    """What a device draws while it waits for its edge server; by default nothing."""
    rx_power_w: PerDevice | None = per_device(PerDeviceRule(q.TX_POWER_W))
    """What a device's radio draws while it listens to a broadcast; by default nothing."""
    cpu_table: CpuTable | None = per_device(Section(CpuTable))
    """The measured energy of computing, in the place of the cubic law with `capacitance`."""
    classes: tuple[DeviceClass, ...] | None = setting(ClassesRule(lambda: Fleet), None)
    """Kinds of devices with settings of their own, which replace the fleet's."""
    budget_scale: float | None = setting(q.SCALE, None)
    """What every device's budget is multiplied by, in whatever form and class it is given."""


@dataclass(frozen=True)
class Rounds:
    """The numbers of global rounds, edge rounds, local steps and gossip steps."""

    global_rounds: int = setting(Whole(1, MOST_ROUNDS))
    """How many global rounds the run has."""
    edge_rounds: int = setting(Whole(1, 10_000), 2)
    """How many edge rounds a global round has."""
    local_steps: int = setting(q.LOCAL_STEPS, 10)
    """How many local steps a device makes in an edge round."""
    gossip_steps: int = setting(q.GOSSIP_STEPS, 10)
    """How many times edge servers average with their neighbours at the end of a global round."""


@dataclass(frozen=True)
class Learning:
    """The learning task: data, model, training, and `model_bits`, which a device uploads."""

    dataset: str = setting(Text(200))
    """A known data set (`fedrt data list`), an .npz file, or an import path (docs/training.md)."""
    model: str = setting(Text(200))
    """A shipped model (docs/training.md) or the import path of a torch module."""
    model_bits: float | str = setting(word_or((MEASURED,), q.MODEL_BITS))
    """What a device uploads; `measured` takes 32 bit for each of the model's parameters."""
    learning_rate: float = setting(Real(above=0, most=1e3))
    """The step size of local training."""
    model_buffers: int | None = setting(Whole(0, 10**9), None)
    """How many numbers the model holds beside its parameters, such as a batch norm's running means:
    messages of a codec carry them as float32. By default those of the shipped model, or none."""
    batch_size: int = setting(Whole(1, 1_000_000), 32)
    """How many samples a local step takes."""
    momentum: float = setting(Real(least=0, most=0.9999), 0.9)
    """The momentum of the optimiser `sgd`."""
    optimiser: Any = setting(EntryRule(OPTIMISERS, Custom), None)
    """The optimiser of local steps; the default is `sgd`."""
    schedule: Schedule | Custom | None = setting(EntryRule(SCHEDULES, Custom), None)
    """How the learning rate changes over the global rounds; by default it does not."""
    clip_norm: float | None = setting(Real(above=0, most=1e9), None)
    """The greatest norm of a device's gradient; longer ones are shortened."""
    proximal: float | None = setting(Real(above=0, most=1e6), None)
    """FedProx's mu: half of it times the squared distance to the edge model is added to a loss."""
    scaffold: bool | None = setting(Flag(), None)
    """Whether devices correct gradients by control variates (SCAFFOLD), which are sent too."""
    upload: str | Custom | None = setting(EntryRule(UPLOADS, Custom), None)
    """The codec of updates; the default is `none`: models are sent as they are."""
    update: tuple[Any, ...] | None = setting(
        Listed(EntryRule({**TRANSFORMS, **UPLOADS}, Custom), 1, 16), None
    )
    """What happens to an update before it is sent, entry by entry; the last one is the codec, and
    `upload = X` is the same as `update = [X]`."""
    top_k: float | None = setting(Real(above=0, most=1), None)
    """The share of its numbers that an update's message has under `top-k`; by default 0.01."""
    gossip: str | None = setting(OneOf(GOSSIP_CODECS), None)
    """The codec of the differences that edge servers send each other; the default is `none`."""
    task: Any = setting(EntryRule(TASKS, Custom), None)
    """The task, which defines loss and measures; the default is `classification`."""
    normalise: bool | Normalisation | None = setting(
        Either(lambda value: Flag() if isinstance(value, bool) else Section(Normalisation)), None
    )
    """Whether inputs get mean 0 and deviation 1, those of the training set or given ones."""
    augment: bool = setting(Flag(), False)
    """Whether images are cropped at random with 4 pixels of padding, and mirrored."""
    averaging: str | Custom = setting(EntryRule(AGGREGATORS, Custom), "uniform")
    """What a device's model counts in its edge's average: the same, or its number of samples; or a
    rule for every coordinate by itself that a few wrong models cannot move far."""
    server_optimiser: Any = setting(EntryRule(SERVER_OPTIMISERS, Custom), None)
    """How an edge server moves its model by the averaged update; by default the average is it."""
    screening: bool | None = setting(Flag(), None)
    """Whether edge servers screen updates and refuse outliers (docs/faults.md). By default they do
    on real devices, and in simulated runs with a section `[faults]`."""
    refuse_norm: float | None = setting(Real(above=1, most=1e12), None)
    """An update is refused whose norm is more than this many times the median of its cluster or of
    the edge server's past; by default 10."""
    trim: float | None = setting(Real(least=0, most=0.49), None)
    """The share of models that a trimmed mean leaves out at each end; by default a quarter."""
    participation: float = setting(Real(above=0, most=1), 1.0)
    """The share of each edge's devices that train, drawn for every edge round."""
    dtype: str = setting(OneOf(("float32", "float64", "bfloat16")), "float32")
    """`bfloat16` shortens the layers' arithmetic only: parameters and updates stay float32."""
    evaluate_every: int = setting(Whole(1, 1_000_000), 5)
    """The average model is evaluated after every so many global rounds, and after the last."""
    device_evaluation: DeviceEvaluation | None = setting(Section(DeviceEvaluation), None)
    """Whether models are evaluated on each device's own samples; by default they are not."""
    partition: Partition = setting(Kinds(PARTITIONS), IidPartition())
    """How the training samples are divided among devices."""

    @property
    def codec(self) -> str | Custom:
        """The codec of updates: `upload`, or the last entry of `update` if that is one."""
        if self.update is None:
            return self.upload or UNCOMPRESSED
        last: Any = self.update[-1]
        return last if isinstance(last, str | Custom) else UNCOMPRESSED

    @property
    def codec_setting(self) -> str:
        """The setting that names it."""
        return "upload" if self.update is None else "update"

    @property
    def transforms(self) -> tuple[Any, ...]:
        """The entries of `update` before the codec."""
        if self.update is None or not isinstance(self.update[-1], str | Custom):
            return self.update or ()
        return self.update[:-1]


@dataclass(frozen=True)
class Control:
    """The limits and rules that policies plan with."""

    kappa: float = setting(Real(least=0, most=1), 0.5)
    """The consensus limit, between no pruning of links (0) and connectivity alone (1)."""
    mixing: str = setting(OneOf(("metropolis", "best-constant")), "metropolis")
    """The rule of the gossip weights, for policies that do not choose them."""
    budgets: str = setting(OneOf(("best-effort", "strict")), "best-effort")
    """Where a cluster's budgets cannot be kept, the round goes on and what is spent over them is
    shown (`best-effort`), or the run stops and says what is lacking (`strict`)."""
    energy_horizon: str = setting(OneOf(("policy", "paper", "exact")), "policy")
    """How a budget is spread over the rest of a run; `policy` leaves it to each policy."""
    contraction_limit: float | str = setting(word_or(("fedrt",), Real(above=0, most=1)), "fedrt")
    """What all gossip steps of a round may leave of the servers' distance to their average, for
    policies that choose steps and weights; `fedrt`: what FedRT's plan leaves in the same round."""
    codecs: tuple[str, ...] | None = setting(
        Listed(Either(lambda value: Text(200) if ":" in str(value) else OneOf(SELECTABLE)), 1, 16),
        None,
    )
    """The codecs that `fedrt-joint` chooses from for each upload: names of shipped ones, and import
    paths of a user's that state what a message of theirs costs ([extending](extending.md))."""
    distortion_limit: float | str | None = setting(word_or(SELECTABLE, Real(least=0, most=1)), None)
    """The greatest mean distortion of the updates of an edge round, for policies that choose
    codecs: a number, or a codec whose distortion it is. By default that of `learning.upload` if it
    is one of these codecs, and else that of `int4`."""


@dataclass(frozen=True)
class Scenario:
    """A whole scenario, as one file describes it."""

    name: str = setting(Text(200))
    """What the scenario is called in tables and folders."""
    description: str = setting(Text(2000, lines=True))
    """What it is about, for readers."""
    fleet: Fleet = setting(FleetSection(Fleet))
    """The devices, and the edge servers they belong to."""
    rounds: Rounds = setting(Section(Rounds))
    """How many rounds and steps there are."""
    channel: Channel = setting(Kinds(CHANNELS, custom=Custom))
    """The channels between devices and their edge servers."""
    bandwidth: Bandwidth = setting(
        Kinds((ConstantBandwidth, UniformBandwidth, BandwidthTrace), custom=Custom)
    )
    """The bandwidth that the devices of a cluster share."""
    backhaul: BackhaulSpeed = setting(
        Kinds((ConstantBackhaul, UniformBackhaul, ScaledTrace), custom=Custom)
    )
    """The speed of links between edge servers."""
    learning: Learning = setting(Section(Learning))
    """Data, model and training."""
    base_graph: BaseGraph = setting(
        Kinds((CompleteGraph, RingGraph, StarGraph, ErdosRenyiGraph, LinkListGraph)),
        CompleteGraph(),
    )
    """Which edge servers have a link at all."""
    control: Control = setting(Section(Control), Control())
    """The limits and rules that policies plan with."""
    faults: Faults | None = setting(Section(Faults), None)
    """Without it nothing fails."""
    downlink: Downlink | None = setting(Section(Downlink), None)
    """Without it devices have the edge model at once and for nothing."""
    overheads: Overheads | None = setting(Section(Overheads), None)
    """Without it messages are their bits alone."""

    schema_version: int = setting(Whole(SCHEMA_VERSION, SCHEMA_VERSION), SCHEMA_VERSION)
    """The version of this schema."""

    @property
    def needs_measuring(self) -> bool:
        """Whether some setting is still to be measured from the model."""
        cycles = settings_in(self.fleet, "cycles_per_sample")
        return MEASURED in (self.learning.model_bits, *cycles)

    @staticmethod
    def read(table: Mapping[str, Any], problems: Sequence[str] = ()) -> Scenario:
        """The scenario of a table, checked; an error with all problems, those given first."""
        found = list(problems)
        scenario = read_table(Scenario, table, "scenario", found)
        if scenario is not None:
            found += broken_rules(scenario) + fault_problems(scenario)
        if found or scenario is None:
            raise InputError(found)
        return scenario

    def with_(self, **sections: Unpack[Sections]) -> Scenario:
        """A copy with settings changed, checked: `with_(fleet={"num_devices": 100})`.

        Sections are tables as in a TOML file, and change what they name; None takes a setting
        away. Where a file has an import path there may be a class, a function or an object.
        """
        return Scenario.read(without_none(overlay(table_of(self), plain(sections))))
