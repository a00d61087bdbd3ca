"""`fedrt.data_list`, `data_show`, `data_import` and `data_fetch`: the commands of `fedrt data`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrt.api.asked import Objects, Settings, read_scenario_asked, read_seed
from fedrt.api.folders import Place
from fedrt.data.catalogue import data_folder
from fedrt.data.originals import ORIGINALS, Split, how_to_get, incomplete
from fedrt.data.originals import read_original as read_files
from fedrt.errors import InputError, reason
from fedrt.scenario.load import Source
from fedrt.system.files import refuse_existing
from fedrt.validation import shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedrt.data.partitions import Parts

PICTURES = (".png", ".svg", ".pdf")


def data_list(data_dir: Place | None = None) -> pd.DataFrame:
    """Every known data set: whether it is ready, and where it is or how to get it.

    The columns are `name`, `state` (`ready`, `incomplete` or `missing`) and `about`.
    """
    import pandas as pd

    folder = data_folder(_path(data_dir))
    rows = [("digits", "ready", "come with scikit-learn")]
    for name, original in ORIGINALS.items():
        found = original.found(folder) if folder else []
        if found and not found[0].missing:
            rows.append((name, "ready", f"{found[0].form} in {found[0].folder}"))
        elif found:
            rows.append((name, "incomplete", incomplete(found[0])))
        else:
            rows.append((name, "missing", how_to_get(name, folder)))
    return pd.DataFrame(rows, columns=["name", "state", "about"])


@dataclass(frozen=True)
class DividedData:
    """How a scenario's data are distributed over its devices."""

    title: str
    parts: Parts
    train_samples: int
    test_samples: int
    notes: tuple[str, ...]
    """What was noticed about the data."""
    path: Path | None
    """Where the picture is; None where none was saved."""

    @property
    def devices(self) -> pd.DataFrame:
        """One row per device: its edge server, its samples, and how many it has of each class."""
        import pandas as pd

        counts = self.parts.class_counts()
        table = {"edge": self.parts.edge_of_device, "samples": self.parts.sizes}
        table |= {f"class_{c}": counts[:, c] for c in range(counts.shape[1])}
        return pd.DataFrame(table).rename_axis("device").reset_index()

    def plot(self) -> Figure:
        """The picture of who holds what."""
        from fedrt.report.partition_figure import partition_figure

        return partition_figure(self.parts.class_counts(), self.parts.edge_of_device, self.title)


def data_show(
    scenario: Source | None = None,
    *,
    seed: int | str = 0,
    settings: Settings = (),
    out: Place | None = None,
    data_dir: Place | None = None,
    save: bool = True,
) -> DividedData:
    """Who holds what of a scenario's data: `fedrt data show`.

    The picture is saved to `out`, which must not exist yet, by default to
    runs/data-SCENARIO-SEED.png; `save=False` saves none.
    """
    from fedrt.data.partitions import load_divided
    from fedrt.report.partition_figure import save_picture
    from fedrt.world.fleet import edge_of_devices

    asked = read_scenario_asked(scenario, Objects(), settings)
    number = read_seed(seed)
    path = _picture(out, f"data-{asked.name.replace('/', '-')}-{number}.png")
    learning, edge_of_device = asked.learning, edge_of_devices(asked)
    dataset, parts = load_divided(learning, _path(data_dir), edge_of_device, number)
    title = f"{dataset.name}, {learning.partition.kind}: {asked.name}, seed {number}"
    counts = (len(dataset.train_labels), len(dataset.test_labels))
    notes = list(dataset.notes)
    shown_data = DividedData(title, parts, *counts, tuple(notes), None)
    if not save:
        return shown_data
    try:
        figure = shown_data.plot()
    except InputError as error:
        if out is not None:
            raise
        return DividedData(title, parts, *counts, (*notes, f"note: {error}"), None)
    if out is None:
        _make(path.parent, str(path.parent))
    save_picture(figure, path)
    return DividedData(title, parts, *counts, tuple(notes), path)


@dataclass(frozen=True)
class KeptData:
    """A data set that has been checked and kept as one file."""

    name: str
    path: Path
    source: str
    train_samples: int
    test_samples: int | None


def data_import(name: str, folder: Place, *, data_dir: Place | None = None) -> KeptData:
    """Check a data set's original files and keep them as one file: `fedrt data import`."""
    known = _known(name)
    source = Path(folder)
    try:
        if not source.is_dir():
            raise InputError(f"{source}: must be a folder with the original files of {known}")
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(str(folder))}: {reason(error)}") from None
    found, split = read_files(known, source)
    return _save(known, split, _target(data_dir), f"{found.form} in {found.folder}")


def data_fetch(name: str, *, data_dir: Place | None = None) -> KeptData:
    """Get a data set from the Hugging Face hub and keep it as one file: `fedrt data fetch`."""
    from fedrt.data.hub import fetch_original

    known = _known(name)
    target = _target(data_dir)
    return _save(known, fetch_original(known), target, ORIGINALS[known].hub)


def _save(name: str, split: Split, target: Path, source: str) -> KeptData:
    from fedrt.data.originals import save_original

    train, test = split
    path = save_original(name, split, target)
    tested = None if test is None else len(test.labels)
    return KeptData(name, path, source, len(train.labels), tested)


def _known(name: str) -> str:
    if name == "digits":
        raise InputError("digits: come with scikit-learn and need no files")
    if name not in ORIGINALS:
        raise InputError(f"NAME {shown(name)}: must be one of {', '.join(ORIGINALS)}")
    return name


def _path(given: Place | None) -> Path | None:
    return None if given is None else Path(given)


def _target(data_dir: Place | None) -> Path:
    """The data folder to write into, created if needed."""
    if data_dir is not None:
        _make(Path(data_dir), f"`data_dir` {shown(str(data_dir))}")
    folder = data_folder(_path(data_dir))
    if folder is None:
        raise InputError("no data folder to write into: give `data_dir` or set FEDRT_DATA")
    return folder


def _make(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be made: {reason(error)}") from None


def _picture(given: Any, default: str) -> Path:
    """The path of the picture; a given name must be free and have a picture's ending."""
    if given is None:
        return Path("runs") / default
    path = Path(given)
    if path.suffix.lower() not in PICTURES or "\0" in str(given):
        raise InputError(f"`out` {shown(str(given))}: must end in {', '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise InputError(f"`out` {shown(str(given))}: {path.parent} must be a folder that is there")
    refuse_existing(path)
    return path


def samples_of_edges(parts: Parts) -> list[dict[str, Any]]:
    """One row per edge server: its devices, samples and classes, and its main class."""
    counts, sizes = parts.class_counts(), parts.sizes
    rows = []
    for edge in np.unique(parts.edge_of_device):
        here = parts.edge_of_device == edge
        whole = counts[here].sum(0)
        held = (counts[here] > 0).sum(1)
        main = int(whole.argmax())
        rows.append(
            {
                "edge": int(edge),
                "devices": int(here.sum()),
                "samples": int(whole.sum()),
                "device_samples": (int(sizes[here].min()), int(sizes[here].max())),
                "classes": int((whole > 0).sum()),
                "device_classes": (int(held.min()), int(held.max())),
                "main_class": (main, float(whole[main] / whole.sum())),
            }
        )
    return rows
