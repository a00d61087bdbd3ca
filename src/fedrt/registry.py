"""Every shipped part of training and of the world that a scenario names, each in one line.

An entry says where the part is and which facts of it are needed before it is loaded: nothing here
loads torch. Names in rules, tables and pages are those of these dictionaries. The update codecs are
in `messages.CODECS`, with their facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

UPDATE, MESSAGE = "update", "message"
"""What entries of `learning.update` take and give."""


def load_path(path: str) -> Any:
    """What a path in this package names, "module:Name"."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class Entry:
    """Where a part is, and whether it has options."""

    path: str
    """What makes it, "module:Name". One that has options is a frozen dataclass of settings with the
    name as its `kind`; its file loads heavy libraries in functions alone."""
    has_options: bool = False
    plain: bool = False
    """Whether its bare name stays a text in a scenario, in the place of its options' defaults."""

    def load(self) -> Any:
        """What the path names."""
        return load_path(self.path)


def make_part(entries: Mapping[str, Entry], choice: Any, learning: Any) -> Any:
    """The shipped part of a name, or of the options that a scenario has read for it.

    One that also follows settings of `[learning]` itself takes them by `with_settings`.
    """
    part = entries[choice].load()() if isinstance(choice, str) else choice
    take = getattr(part, "with_settings", None)
    return part if take is None else take(learning)


@dataclass(frozen=True)
class Measure:
    """A measure of a model on test samples."""

    name: str
    higher_is_better: bool = True
    is_share: bool = False
    """Whether it lies between 0 and 1, to be shown in percent."""
    of_mean: str = "mean"
    """What is made of the mean over the samples: `mean` itself, its `root`, or `exp`."""

    def best(self, values: Iterable[float]) -> float:
        """The best of several values."""
        return max(values) if self.higher_is_better else min(values)

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as a target."""
        return value >= target if self.higher_is_better else value <= target

    def say(self, value: float | None, digits: int = 2) -> str:
        """A value in words; `-` where no evaluation gave a number."""
        if value is None:
            return "-"
        return f"{value:.{digits}%}" if self.is_share else f"{value:.4g}"

    def say_difference(self, value: float | None) -> str:
        """The difference of two values in words; of shares in percentage points."""
        if value is None:
            return "-"
        text = f"{100 * value:+.2f}" if self.is_share else f"{value:+.3g}"
        return text[1:] if float(text) == 0 else text

    @property
    def edge_names(self) -> tuple[str, str, str]:
        """The columns with the mean, least and greatest value of the edge models."""
        return f"edge_{self.name}_mean", f"edge_{self.name}_min", f"edge_{self.name}_max"


ACCURACY = Measure("accuracy", is_share=True)


@dataclass(frozen=True)
class TaskEntry(Entry):
    """A learning task."""

    measures: tuple[Measure, ...] = (ACCURACY,)
    """What is reported of models; the first one is what a run is judged by."""


@dataclass(frozen=True)
class UpdateEntry(Entry):
    """A part of the chain between a trained model and the message that is sent."""

    takes: tuple[str, ...] = (UPDATE,)
    """What may come before it."""
    gives: str = UPDATE
    """What it makes of that."""


CHANNELS = {
    "uniform": Entry("fedrt.scenario.processes:UniformSnr", has_options=True),
    "gauss-markov": Entry("fedrt.scenario.processes:GaussMarkovSnr", has_options=True),
    "path-loss": Entry("fedrt.scenario.processes:PathLossSnr", has_options=True),
    "trace": Entry("fedrt.scenario.processes:ChannelTrace", has_options=True),
}
"""Their settings, whose `process` names the class of the channel itself."""
OPTIMISERS = {
    "sgd": Entry("fedrt.learning.optimisers.sgd:SGD", has_options=True, plain=True),
    "adam": Entry("fedrt.learning.optimisers.adam:Adam", has_options=True),
    "adamw": Entry("fedrt.learning.optimisers.adam:AdamW", has_options=True),
}
SERVER_OPTIMISERS = {
    "fedavgm": Entry("fedrt.learning.servers.momentum:FedAvgM", has_options=True),
    "fedadam": Entry("fedrt.learning.servers.adaptive:FedAdam", has_options=True),
    "fedyogi": Entry("fedrt.learning.servers.adaptive:FedYogi", has_options=True),
}
SCHEDULES = {
    "constant": Entry("fedrt.scenario.methods:ConstantSchedule", has_options=True),
    "step": Entry("fedrt.scenario.methods:StepSchedule", has_options=True),
    "cosine": Entry("fedrt.scenario.methods:CosineSchedule", has_options=True),
}
TRANSFORMS = {
    "clip": UpdateEntry("fedrt.learning.transforms.clip:Clip", has_options=True),
    "noise": UpdateEntry("fedrt.learning.transforms.noise:GaussianNoise", has_options=True),
}
"""What `learning.update` may name before the codec."""
AGGREGATORS = {
    "uniform": Entry("fedrt.learning.aggregators.mean:Mean"),
    "samples": Entry("fedrt.learning.aggregators.mean:SamplesMean"),
    "median": Entry("fedrt.learning.aggregators.median:Median"),
    "trimmed-mean": Entry("fedrt.learning.aggregators.trimmed_mean:TrimmedMean"),
}
TASKS = {
    "classification": TaskEntry("fedrt.learning.tasks.classification:Classification"),
    "multi-label": TaskEntry(
        "fedrt.learning.tasks.multi_label:MultiLabel",
        measures=(
            Measure("label_accuracy", is_share=True),
            Measure("exact_match", is_share=True),
        ),
    ),
    "next-token": TaskEntry(
        "fedrt.learning.tasks.next_token:NextToken",
        measures=(ACCURACY, Measure("perplexity", higher_is_better=False, of_mean="exp")),
    ),
    "regression": TaskEntry(
        "fedrt.learning.tasks.regression:Regression",
        has_options=True,
        measures=(
            Measure("rmse", higher_is_better=False, of_mean="root"),
            Measure("mae", higher_is_better=False),
        ),
    ),
}
