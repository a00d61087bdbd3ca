"""`fedrt.data_split`: one file of samples for each device and one for the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.api.asked import Objects, Settings, read_scenario_asked, read_seed
from fedrt.api.folders import Place
from fedrt.data.catalogue import channel_stats
from fedrt.errors import InputError
from fedrt.scenario.classes import settings_in
from fedrt.scenario.load import Source
from fedrt.scenario.methods import Normalisation
from fedrt.scenario.model import MEASURED, Learning, Scenario
from fedrt.system.extras import need
from fedrt.system.files import refuse_existing, whole_folder
from fedrt.validation import shown


@dataclass(frozen=True)
class SplitFiles:
    """The files of all devices and of the server."""

    path: Path
    samples: tuple[int, ...]
    """The number of samples in each device's file."""
    test_samples: int
    data_digest: str
    """Of the whole data set; every file has it."""
    normalise: str | None
    """Lines for the scenario, in TOML, with the mean and deviation of all training samples, which
    real devices need there; None where it has them, or needs none."""
    measured: str | None
    """The same with the numbers of what the scenario leaves to be measured of the model."""
    notes: tuple[str, ...]


def data_split(
    scenario: Source,
    *,
    out: Place,
    seed: int | str = 0,
    settings: Settings = (),
    data_dir: Place | None = None,
) -> SplitFiles:
    """Write the samples of every device and of the server to files: `fedrt data split`.

    `out` is a new folder, with `device-0.npz` and so on and `server.npz`. It appears with all its
    files or not at all. `seed` is that of the run, by which samples are divided.
    """
    from fedrt.data.digest import data_digest
    from fedrt.data.partitions import load_divided
    from fedrt.data.split import write_files
    from fedrt.world.fleet import edge_of_devices

    asked, number = read_scenario_asked(scenario, Objects(), settings), read_seed(seed)
    if "\0" in str(out) or not str(out):
        raise InputError(f"`out` {shown(str(out))}: must be the name of a new folder")
    learning, folder = asked.learning, Path(out)
    if learning.device_evaluation is not None:
        raise InputError("scenario.learning.device_evaluation: is not there for real devices yet")
    refuse_existing(folder)
    where = None if data_dir is None else Path(data_dir)
    measured = _measured(asked, where)
    dataset, parts = load_divided(learning, where, edge_of_devices(asked), number)
    digest = data_digest(dataset)
    with whole_folder(folder) as temporary:
        write_files(temporary, dataset, parts, number, digest)
    sizes = tuple(parts.sizes.tolist())
    lines = _normalisation(learning, dataset.train_images), measured
    return SplitFiles(folder, sizes, len(dataset.test_labels), digest, *lines, dataset.notes)


def _measured(scenario: Scenario, data_dir: Path | None) -> str | None:
    """The settings that are to be measured, as numbers; None if there are none."""
    if not scenario.needs_measuring:
        return None
    need('"measured" settings', "torch")
    from fedrt.learning.material import measure

    found = measure(scenario, data_dir)
    lines: list[str] = []
    if scenario.learning != found.learning:
        lines += ["[learning]", f"model_bits = {found.learning.model_bits!r}"]
        if scenario.learning.model_buffers != found.learning.model_buffers:
            lines.append(f"model_buffers = {found.learning.model_buffers}")
    before, after = (settings_in(each.fleet, "cycles_per_sample") for each in (scenario, found))
    cycles = [new.low for old, new in zip(before, after, strict=True) if old == MEASURED]
    if cycles:
        lines += ["[fleet]", f"cycles_per_sample = {cycles[0]!r}"]
    return "".join(f"{line}\n" for line in lines)


def _normalisation(learning: Learning, inputs: NDArray[Any]) -> str | None:
    """The mean and deviation as a scenario has them; None where it needs none."""
    if isinstance(learning.normalise, Normalisation) or learning.normalise is False:
        return None
    if inputs.dtype.kind == "i":
        return None
    mean, deviation = (_toml(values) for values in channel_stats(inputs))
    return f"[learning.normalise]\nmean = {mean}\ndeviation = {deviation}\n"


def _toml(values: NDArray[np.float64]) -> str:
    """One number, or a list with one for each channel, to the last bit."""
    found = [repr(value) for value in values.tolist()]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"
