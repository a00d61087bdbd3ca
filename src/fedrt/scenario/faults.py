"""The `[faults]` section of a scenario (docs/faults.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.processes import Trace
from fedrt.scenario.tables.fields import Kinds, setting
from fedrt.validation import Flag, Listed, OneOf, Real, Whole

if TYPE_CHECKING:
    from fedrt.scenario.model import Scenario

PROBABILITY = Real(least=0, most=1)
MEAN_ROUNDS = Real(least=1, most=1e9)
NUMBERS = Listed(Whole(0, 10_000_000), least=1)


@dataclass(frozen=True)
class Random:
    """Failures drawn independently for every round."""

    kind: ClassVar[str] = "random"
    probability: float = setting(PROBABILITY)
    """Of a failure, in every round."""


@dataclass(frozen=True)
class Markov:
    """Failures that last: up and down times are geometric with the given means, in rounds."""

    kind: ClassVar[str] = "markov"
    mean_up: float = setting(MEAN_ROUNDS)
    """The mean number of rounds without the failure."""
    mean_down: float = setting(MEAN_ROUNDS)
    """The mean number of rounds that it lasts."""


@dataclass(frozen=True)
class RandomSome(Random):
    """Failures drawn independently for every round, for all or only some devices or servers."""

    only: tuple[int, ...] | None = setting(NUMBERS, None)
    """The devices or servers that can fail, counted from 0; by default all."""


@dataclass(frozen=True)
class MarkovSome(Markov):
    """Failures that last, for all or only some devices or servers."""

    only: tuple[int, ...] | None = setting(NUMBERS, None)
    """The devices or servers that can fail, counted from 0; by default all."""


@dataclass(frozen=True)
class Attackers:
    """The attackers: given devices, or a share of each cluster."""

    kind: ClassVar[str]
    devices: tuple[int, ...] | None = setting(NUMBERS, None)
    """The attacking devices, counted from 0; these or `share`."""
    share: float | None = setting(PROBABILITY, None)
    """The share of each cluster's devices that attack."""
    first_round: int = setting(Whole(0, 1_000_000), 0)
    """The global round in which the attack begins; before it, attackers send what they trained."""


@dataclass(frozen=True)
class SignFlip(Attackers):
    """An attack that sends the negative update, times `scale`."""

    kind: ClassVar[str] = "sign-flip"
    scale: float = setting(Real(above=0, most=1e12), 1.0)
    """What the update is multiplied by, beside its sign."""


@dataclass(frozen=True)
class Noise(Attackers):
    """An attack that sends Gaussian noise with `scale` times the norm of the update."""

    kind: ClassVar[str] = "noise"
    scale: float = setting(Real(above=0, most=1e12), 1.0)
    """The norm of the noise over that of the update."""


@dataclass(frozen=True)
class Huge(Attackers):
    """An attack that sends a model of huge but finite numbers."""

    kind: ClassVar[str] = "huge"
    value: float = setting(Real(above=0, most=3e38), 3e38)
    """Every parameter that is sent."""


@dataclass(frozen=True)
class RandomModel(Attackers):
    """An attack that sends a random model, and claims to have trained on many samples."""

    kind: ClassVar[str] = "random-model"
    scale: float = setting(Real(above=0, most=1e12), 1.0)
    """The norm of the model over that of the edge server's."""
    samples: int = setting(Whole(1, 10**9), 10**9)
    """How many samples it claims."""


@dataclass(frozen=True)
class LittleIsEnough(Attackers):
    """A little is enough: the mean update of the cluster less a few standard deviations."""

    kind: ClassVar[str] = "a-little-is-enough"
    deviations: float = setting(Real(above=0, most=1e6), 1.5)
    """How many standard deviations of each coordinate are taken away."""


@dataclass(frozen=True)
class InnerProduct(Attackers):
    """Inner-product manipulation: the negative mean update of the cluster, times `scale`."""

    kind: ClassVar[str] = "inner-product"
    scale: float = setting(Real(above=0, most=1e12), 1.0)
    """What the mean is multiplied by, beside its sign."""


@dataclass(frozen=True)
class NotANumber(Attackers):
    """An attack that sends a model full of NaN."""

    kind: ClassVar[str] = "nan"


@dataclass(frozen=True)
class WrongShape(Attackers):
    """An attack that sends a model without its last number."""

    kind: ClassVar[str] = "shape"


ATTACKS = (
    SignFlip,
    Noise,
    NotANumber,
    WrongShape,
    Huge,
    RandomModel,
    LittleIsEnough,
    InnerProduct,
)
Attack = (
    SignFlip | Noise | NotANumber | WrongShape | Huge | RandomModel | LittleIsEnough | InnerProduct
)
SomeFail = RandomSome | MarkovSome | Trace
AnyFail = Random | Markov | Trace
SOME = Kinds((RandomSome, MarkovSome, Trace))
ANY = Kinds((Random, Markov, Trace))


@dataclass(frozen=True)
class Faults:
    """What fails, how long edge servers wait, and which updates they refuse."""

    silent: SomeFail | None = setting(SOME, None)
    """Per edge round: a device falls silent, and its update never arrives."""
    silent_spends: str = setting(OneOf(("nothing", "compute", "all")), "compute")
    """What a silent device still does: nothing, train, or train and send in vain."""
    absent: SomeFail | None = setting(SOME, None)
    """Per global round: a device is absent, and joins again later."""
    straggler: SomeFail | None = setting(SOME, None)
    """Per edge round: a device runs at `straggler_speed` of its planned frequency."""
    straggler_speed: float = setting(Real(above=0, most=1), 0.25)
    """The share of its planned frequency at which a straggler runs."""
    server_down: SomeFail | None = setting(SOME, None)
    """Per global round: an edge server is down."""
    link_down: AnyFail | None = setting(ANY, None)
    """Per global round and link of the base graph: the link is down."""
    cut: AnyFail | None = setting(ANY, None)
    """Per global round: the backhaul is cut in two."""
    cut_servers: tuple[int, ...] | None = setting(NUMBERS, None)
    """The servers on one side; without it a random half, drawn for each cut."""
    deadline_s: float | None = setting(Real(above=0, most=1e15), None)
    """How long edge servers wait in an edge round; by default until all are there."""
    deadline_factor: float | None = setting(Real(least=1, most=1e6), None)
    """The deadline as a multiple of the median planned time of a cluster's devices."""
    refuse: bool | None = setting(Flag(), None)
    """The old place of `learning.screening`, which is on in a simulated run with this section."""
    refuse_norm: float | None = setting(Real(above=1, most=1e12), None)
    """The old place of `learning.refuse_norm`."""
    attack: Attack | None = setting(Kinds(ATTACKS), None)
    """Devices that send something else than their update."""


REFUSE_NORM = 10.0
MOVED = {"refuse": "screening", "refuse_norm": "refuse_norm"}
"""Settings of `[faults]` that moved to `[learning]`."""


def screening_norm(scenario: Scenario, *, real: bool = False) -> float | None:
    """How many times the usual norm an update may have; None where updates are not screened.

    `real`: on real devices, which screen by default; simulated runs do with a section `[faults]`.
    """
    learning, faults = scenario.learning, scenario.faults
    chosen, most = learning.screening, learning.refuse_norm
    if chosen is None and faults is not None:
        chosen = faults.refuse
    if most is None and faults is not None:
        most = faults.refuse_norm
    if chosen is None:
        chosen = real or faults is not None
    if not chosen:
        return None
    return REFUSE_NORM if most is None else most


def moved_notes(scenario: Scenario) -> tuple[str, ...]:
    """A note for each setting that stands in its old place."""
    faults = scenario.faults
    return tuple(
        f"note: scenario.faults.{old} belongs to [learning]: scenario.learning.{new}"
        for old, new in MOVED.items()
        if getattr(faults, old, None) is not None
    )


def moved_problems(scenario: Scenario) -> list[str]:
    """A line for each setting that is given in both places."""
    faults, learning = scenario.faults, scenario.learning
    return [
        f"scenario.learning.{new}: give it or faults.{old}, not both"
        for old, new in MOVED.items()
        if getattr(faults, old, None) is not None and getattr(learning, new) is not None
    ]
