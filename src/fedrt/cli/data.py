"""`fedrt data list | show | split | import | fetch`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import Commands, Parser, add_command, add_settings

if TYPE_CHECKING:
    from fedrt.api.files.datasets import DividedData, KeptData

MOST_ROWS = 40


def add(commands: Commands[Parser]) -> None:
    """Add the commands to the parser."""
    text = "list, show, split, import and fetch data sets"
    data = commands.add_parser("data", help=text, description=text)
    actions = data.add_subparsers(metavar="ACTION", required=True)
    listed = add_command(actions, "list", run_list, "which data sets are there, and where")
    show = add_command(actions, "show", run_show, "who holds what: a table and a picture")
    divided = add_command(
        actions, "split", run_split, "one file of samples for each real device, and the server's"
    )
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
    divided.add_argument("scenario", help="a shipped scenario or a TOML file")
    for command in (show, divided):
        command.add_argument("--seed", default="0", metavar="N", help="default: 0")
    show.add_argument(
        "--out",
        metavar="FILE",
        help="the picture, .png, .svg or .pdf; must not exist yet;"
        " default: runs/data-SCENARIO-SEED.png",
    )
    divided.add_argument(
        "--out", metavar="DIR", required=True, help="the folder; must not exist yet"
    )
    for command in (show, divided):
        add_settings(command)
    for command in (brought, fetch):
        command.add_argument("name", metavar="NAME", help="cifar10, mnist, fmnist or femnist")
    brought.add_argument("folder", metavar="DIR", help="where the original files are")
    for command in (listed, show, divided, brought, fetch):
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
    import fedrt
    from fedrt.data.catalogue import data_folder

    for row in fedrt.data_list(args.data_dir).itertuples():
        print(f"{row.name:8} {row.state}: {row.about}")
    if data_folder(args.data_dir) is None:
        print("the data folder is not set: give --data-dir DIR or set FEDRT_DATA")


def run_show(args: argparse.Namespace) -> None:
    """Print how a scenario's data are distributed over devices, and draw it."""
    import fedrt

    found = fedrt.data_show(
        args.scenario,
        seed=args.seed,
        settings=args.settings,
        out=args.out,
        data_dir=args.data_dir,
    )
    for line in found.notes:
        print(line, file=sys.stderr)
    _print_parts(found)
    if found.path is not None:
        print(f"picture in {found.path}")


def run_split(args: argparse.Namespace) -> None:
    """Write every device's samples and the server's to files of their own."""
    import fedrt

    found = fedrt.data_split(
        args.scenario,
        seed=args.seed,
        settings=args.settings,
        out=args.out,
        data_dir=args.data_dir,
    )
    for line in found.notes:
        print(line, file=sys.stderr)
    devices, least, most = len(found.samples), min(found.samples), max(found.samples)
    each = f"{least}" if least == most else f"{least} to {most}"
    print(f"{found.path}: {devices} devices with {each} samples each, device-0.npz and so on;")
    print(f"server.npz with {found.test_samples:,} test samples; data digest {found.data_digest}")
    if found.normalise is not None:
        print("real devices need the statistics of all samples in the scenario:")
        print(found.normalise, end="")
    if found.measured is not None:
        print("and numbers in the place of what is to be measured:")
        print(found.measured, end="")


def _print_parts(found: DividedData) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedrt.api.files.datasets import samples_of_edges

    given, train = int(found.parts.sizes.sum()), found.train_samples
    caption = f"{given:,} of {train:,} training samples given; {found.test_samples:,} test samples"
    table = Table(title=escape(found.title), caption=caption)
    for name in ("edge", "devices", "samples", "a device's", "classes", "a device's", "main class"):
        table.add_column(name, justify="right")
    rows = samples_of_edges(found.parts)
    if len(rows) > MOST_ROWS:
        table.caption = f"{caption}; the first {MOST_ROWS} of {len(rows)} edges"
    for row in rows[:MOST_ROWS]:
        main, share = row["main_class"]
        table.add_row(
            str(row["edge"]),
            str(row["devices"]),
            f"{row['samples']:,}",
            _span(*row["device_samples"]),
            str(row["classes"]),
            _span(*row["device_classes"]),
            f"{main}: {share:.0%}",
        )
    Console().print(table)


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def run_import(args: argparse.Namespace) -> None:
    """Read and check original files, and save them as one npz file in the data folder."""
    import fedrt

    _print_kept(fedrt.data_import(args.name, args.folder, data_dir=args.data_dir))


def run_fetch(args: argparse.Namespace) -> None:
    """Fetch a data set from the hub, and save it as one npz file in the data folder."""
    import fedrt

    _print_kept(fedrt.data_fetch(args.name, data_dir=args.data_dir))


def _print_kept(kept: KeptData) -> None:
    samples = f"{kept.train_samples:,} samples"
    if kept.test_samples is not None:
        samples = f"{kept.train_samples:,} training and {kept.test_samples:,} test samples"
    print(f"{kept.name}: {samples} from {kept.source}, kept in {kept.path}")
