"""What a scenario must say so that real devices can train it, each with samples of its own."""

from __future__ import annotations

from pathlib import Path

from fedrt.data.split import OwnSamples
from fedrt.errors import InputError
from fedrt.scenario.methods import Normalisation
from fedrt.scenario.model import Scenario

NORMALISE = "scenario.learning.normalise"


def remote_problems(scenario: Scenario, *, integers: bool = False) -> list[str]:
    """One line for each setting that real devices cannot carry out.

    `integers`: samples are of whole numbers, which are not normalised.
    """
    learning, lines = scenario.learning, []
    given = isinstance(learning.normalise, Normalisation) or learning.normalise is False
    if not given and not integers:
        rule = "must be false, or have mean and deviation: no device knows those of all samples"
        lines.append(f"{NORMALISE}: {rule}; `fedrt data split` prints them")
    if learning.device_evaluation is not None:
        lines.append("scenario.learning.device_evaluation: is not there for real devices yet")
    return lines


def refuse_unfit(scenario: Scenario, own: OwnSamples, seed: int, path: Path) -> None:
    """Raise an error if a party's samples are not those of a scenario and seed."""
    lines = remote_problems(scenario, integers=own.integers)
    if own.seed != seed:
        lines.append(f"{path}: was split with seed {own.seed}: the run's is {seed}")
    if not -1 <= own.device < scenario.fleet.num_devices:
        rule = f"below the scenario's {scenario.fleet.num_devices} devices"
        lines.append(f"{path}: is of device {own.device}: must be {rule}")
    if scenario.learning.augment and own.images.ndim != 4:
        lines.append("scenario.learning.augment = true: needs images, (n, height, width, c)")
    if lines:
        raise InputError(lines)
