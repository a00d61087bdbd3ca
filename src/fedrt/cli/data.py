"""`fedrt data list | show | import | fetch`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import Commands, Parser, add_command, add_settings
from fedrt.errors import InputError, reason
from fedrt.validation import shown

if TYPE_CHECKING:
    from fedrt.data.originals import Split
    from fedrt.data.partitions import Parts

PICTURES = (".png", ".svg", ".pdf")
MOST_ROWS = 40


def add(commands: Commands[Parser]) -> None:
    """Add the commands to the parser."""
    text = "list, show, import and fetch data sets"
    data = commands.add_parser("data", help=text, description=text)
    actions = data.add_subparsers(metavar="ACTION", required=True)
    listed = add_command(actions, "list", run_list, "which data sets are there, and where")
    show = add_command(actions, "show", run_show, "who holds what: a table and a picture")
    brought = add_command(
        actions, "import", run_import, "check a data set's original files and keep them as one"
    )
    fetch = add_command(actions, "fetch", run_fetch, "get a data set from the Hugging Face hub")
    show.add_argument(
        "scenario",
        nargs="?",
        default="quickstart",
        help="a shipped scenario or a TOML file; default: quickstart",
    )
    show.add_argument("--seed", default="0", metavar="N", help="default: 0")
    show.add_argument(
        "--out",
        metavar="FILE",
        help="the picture, .png, .svg or .pdf; must not exist yet;"
        " default: runs/data-SCENARIO-SEED.png",
    )
    add_settings(show)
    for command in (brought, fetch):
        command.add_argument("name", metavar="NAME", help="cifar10, mnist, fmnist or femnist")
    brought.add_argument("folder", metavar="DIR", help="where the original files are")
    for command in (listed, show, brought, fetch):
        add_data_dir(command)


def add_data_dir(parser: Parser) -> None:
    """Add the option of every command that reads data."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="where data sets are; default: what FEDRT_DATA names",
    )


def run_list(args: argparse.Namespace) -> None:
    """Print one line for every known data set: where it is, or what is missing."""
    from fedrt.data.catalogue import data_folder
    from fedrt.data.originals import ORIGINALS, how_to_get, incomplete

    folder = data_folder(args.data_dir)
    print(f"{'digits':8} ready: come with scikit-learn")
    for name, original in ORIGINALS.items():
        found = original.found(folder) if folder else []
        if found and not found[0].missing:
            state = f"ready: {found[0].form} in {found[0].folder}"
        elif found:
            state = f"incomplete: {incomplete(found[0])}"
        else:
            state = f"missing: {how_to_get(name, folder)}"
        print(f"{name:8} {state}")
    if folder is None:
        print("the data folder is not set: give --data-dir DIR or set FEDRT_DATA")


def run_show(args: argparse.Namespace) -> None:
    """Print how a scenario's data are distributed over devices, and draw it."""
    from fedrt.api.asked import read_seed
    from fedrt.data.partitions import load_divided
    from fedrt.report.partition_figure import partition_figure, save_picture
    from fedrt.scenario import load_scenario
    from fedrt.world.fleet import edge_of_devices

    scenario = load_scenario(args.scenario, args.settings)
    seed = read_seed(args.seed)
    path = _picture(args.out, f"data-{scenario.name.replace('/', '-')}-{seed}.png")
    learning, edge_of_device = scenario.learning, edge_of_devices(scenario)
    dataset, parts = load_divided(learning, args.data_dir, edge_of_device, seed)
    for line in dataset.notes:
        print(line, file=sys.stderr)
    title = f"{dataset.name}, {learning.partition.kind}: {scenario.name}, seed {seed}"
    _print_parts(parts, title, len(dataset.train_labels), len(dataset.test_labels))
    try:
        figure = partition_figure(parts.class_counts(), edge_of_device, title)
    except InputError as error:
        if args.out is not None:
            raise
        print(f"note: {error}")
        return
    if args.out is None:
        _make(path.parent, str(path.parent))
    save_picture(figure, path)
    print(f"picture in {path}")


def _print_parts(parts: Parts, title: str, train: int, test: int) -> None:
    import numpy as np
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    given = int(parts.sizes.sum())
    caption = f"{given:,} of {train:,} training samples given; {test:,} test samples"
    table = Table(title=escape(title), caption=caption)
    for name in ("edge", "devices", "samples", "a device's", "classes", "a device's", "main class"):
        table.add_column(name, justify="right")
    counts, sizes = parts.class_counts(), parts.sizes
    edges = np.unique(parts.edge_of_device)
    if len(edges) > MOST_ROWS:
        table.caption = f"{caption}; the first {MOST_ROWS} of {len(edges)} edges"
    for edge in edges[:MOST_ROWS]:
        here = parts.edge_of_device == edge
        whole = counts[here].sum(0)
        held = (counts[here] > 0).sum(1)
        main = int(whole.argmax())
        table.add_row(
            str(edge),
            str(int(here.sum())),
            f"{int(whole.sum()):,}",
            _span(sizes[here].min(), sizes[here].max()),
            str(int((whole > 0).sum())),
            _span(held.min(), held.max()),
            f"{main}: {whole[main] / whole.sum():.0%}",
        )
    Console().print(table)


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def run_import(args: argparse.Namespace) -> None:
    """Read and check original files, and save them as one npz file in the data folder."""
    from fedrt.data.originals import read_original

    name = _known(args.name)
    source = Path(args.folder)
    try:
        if not source.is_dir():
            raise InputError(f"{source}: must be a folder with the original files of {name}")
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(args.folder)}: {reason(error)}") from None
    found, split = read_original(name, source)
    _save(name, split, _target(args.data_dir), f"{found.form} in {found.folder}")


def run_fetch(args: argparse.Namespace) -> None:
    """Fetch a data set from the hub, and save it as one npz file in the data folder."""
    from fedrt.data.hub import fetch_original
    from fedrt.data.originals import ORIGINALS

    name = _known(args.name)
    target = _target(args.data_dir)
    _save(name, fetch_original(name), target, ORIGINALS[name].hub)


def _save(name: str, split: Split, target: Path, source: str) -> None:
    from fedrt.data.originals import save_original

    train, test = split
    path = save_original(name, split, target)
    samples = f"{len(train.labels):,} samples"
    if test is not None:
        samples = f"{len(train.labels):,} training and {len(test.labels):,} test samples"
    print(f"{name}: {samples} from {source}, kept in {path}")


def _known(name: str) -> str:
    from fedrt.data.originals import ORIGINALS

    if name == "digits":
        raise InputError("digits: come with scikit-learn and need no files")
    if name not in ORIGINALS:
        raise InputError(f"NAME {shown(name)}: must be one of {', '.join(ORIGINALS)}")
    return name


def _target(data_dir: Path | None) -> Path:
    """The data folder to write into, created if needed."""
    from fedrt.data.catalogue import data_folder

    if data_dir is not None:
        _make(data_dir, f"--data-dir {shown(str(data_dir))}")
    folder = data_folder(data_dir)
    if folder is None:
        raise InputError("no data folder to write into: give --data-dir DIR or set FEDRT_DATA")
    return folder


def _make(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be made: {reason(error)}") from None


def _picture(given: str | None, default: str) -> Path:
    """The path of the figure; a given name must be free and have a figure's ending."""
    from fedrt.system.files import refuse_existing

    path = Path("runs") / default if given is None else Path(given)
    if given is not None:
        if path.suffix.lower() not in PICTURES or "\0" in given:
            raise InputError(f"--out {shown(given)}: must end in {', '.join(PICTURES)}")
        if not path.parent.is_dir():
            raise InputError(f"--out {shown(given)}: {path.parent} must be a folder that is there")
        refuse_existing(path)
    return path
