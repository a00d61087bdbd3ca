"""The settings of what `[learning]` names: schedules, partitions and so on, and their limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fedrt.scenario.tables.fields import setting
from fedrt.validation import Either, Listed, OneOf, Real, Whole

DECAY = Real(least=0, most=1e3)
SHARE = Real(least=0, most=0.999999)
"""Of what a running mean keeps from one step to the next."""
EPSILON = Real(above=0, most=1.0)
RATE = Real(above=0, most=1e3)
MOST = 1e30
ONE_OR_MANY = Either(
    lambda value: Listed(Real(-MOST, MOST), 1) if isinstance(value, list) else Real(-MOST, MOST)
)
ONE_OR_MANY_ABOVE = Either(
    lambda value: (
        Listed(Real(above=0, most=MOST), 1) if isinstance(value, list) else Real(above=0, most=MOST)
    )
)
ROUNDS = Whole(0, 1_000_000)


@dataclass(frozen=True)
class ConstantSchedule:
    """The learning rate of the scenario in every global round."""

    kind: ClassVar[str] = "constant"
    warm_up_rounds: int = setting(ROUNDS, 0)
    """Global rounds over which the rate rises evenly to its full value."""

    def share(self, t: int, rounds: int) -> float:
        """What the rate is multiplied by in global round t of so many, after the warm-up."""
        return 1.0


@dataclass(frozen=True)
class StepSchedule:
    """A learning rate that is multiplied by `factor` after every so many global rounds."""

    kind: ClassVar[str] = "step"
    every: int = setting(Whole(1, 1_000_000))
    """Global rounds between two changes."""
    factor: float = setting(Real(above=0, most=1), 0.1)
    """What the rate is multiplied by."""
    warm_up_rounds: int = setting(ROUNDS, 0)
    """Global rounds over which the rate rises evenly to its full value."""

    def share(self, t: int, rounds: int) -> float:
        """What the rate is multiplied by in global round t of so many, after the warm-up."""
        return float(self.factor ** (t // self.every))


@dataclass(frozen=True)
class CosineSchedule:
    """A learning rate that falls along half a cosine, towards `last` of it as the run ends."""

    kind: ClassVar[str] = "cosine"
    last: float = setting(Real(least=0, most=1), 0.0)
    """The share of the rate at the end."""
    warm_up_rounds: int = setting(ROUNDS, 0)
    """Global rounds over which the rate rises evenly to its full value."""

    def share(self, t: int, rounds: int) -> float:
        """What the rate is multiplied by in global round t of so many, after the warm-up."""
        return self.last + (1 - self.last) * 0.5 * (1 + math.cos(math.pi * t / rounds))


@dataclass(frozen=True)
class DeviceEvaluation:
    """Evaluation of models on every device's own samples, of which a part is held out for it."""

    held_out: float = setting(Real(above=0, most=0.9), 0.2)
    """The share of a device's samples that do not train."""
    tuning_steps: int = setting(Whole(0, 100_000), 0)
    """Local steps after which a device's own model is evaluated too; 0: it is not."""


@dataclass(frozen=True)
class Normalisation:
    """The mean and deviation by which inputs are normalised, one for all or one per channel."""

    mean: float | tuple[float, ...] = setting(ONE_OR_MANY)
    """What is subtracted from inputs."""
    deviation: float | tuple[float, ...] = setting(ONE_OR_MANY_ABOVE)
    """What they are then divided by."""


Schedule = ConstantSchedule | StepSchedule | CosineSchedule


@dataclass(frozen=True)
class IidPartition:
    """Every device holds an equal random share."""

    kind: ClassVar[str] = "iid"


@dataclass(frozen=True)
class DirichletPartition:
    """Uneven classes: `device` draws each device's class mix, `class` splits each class."""

    kind: ClassVar[str] = "dirichlet"
    concentration: float = setting(Real(above=0, most=1e6), 1.0)
    """The smaller, the more uneven."""
    form: str = setting(OneOf(("device", "class")), "device")
    """What a draw divides: the classes of one device, or the devices of one class."""


@dataclass(frozen=True)
class PathologicalPartition:
    """Each cluster holds a few labels only; inside a cluster all is even."""

    kind: ClassVar[str] = "cluster-pathological"
    labels_per_cluster: int = setting(Whole(1, 1000))
    """How many labels a cluster holds."""


@dataclass(frozen=True)
class WriterPartition:
    """Each device holds the samples of one writer."""

    kind: ClassVar[str] = "writer"


@dataclass(frozen=True)
class OwnerPartition(WriterPartition):
    """Each device holds the samples of one owner."""

    kind: ClassVar[str] = "owner"


@dataclass(frozen=True)
class BootstrapPartition:
    """Every device draws its samples from all, with replacement: fleets larger than the data."""

    kind: ClassVar[str] = "bootstrap"
    samples_per_device: int = setting(Whole(1, 1_000_000))
    """How many samples each device draws."""


Partition = (
    IidPartition | DirichletPartition | PathologicalPartition | WriterPartition | BootstrapPartition
)
PARTITIONS = (
    IidPartition,
    DirichletPartition,
    PathologicalPartition,
    WriterPartition,
    OwnerPartition,
    BootstrapPartition,
)
