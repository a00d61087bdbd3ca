"""`fedrt reproduce`: the paper's table and figures, reproduced beside its own numbers."""

from __future__ import annotations

import argparse

from fedrt.api.files import NAMES
from fedrt.cli.parser import Commands, Parser, add_command
from fedrt.cli.run import add_training, training_options

ENDINGS = 3
"""The files of every figure: .svg, .pdf and .png."""


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "make the paper's table and figures again, beside the paper's own numbers"
    parser = add_command(commands, "reproduce", run, text)
    parser.add_argument("what", choices=(*NAMES, "all"), help="what to make")
    parser.add_argument("--seeds", default="0,1,2", metavar="0,1,...", help="default: 0,1,2")
    parser.add_argument("--only", metavar="A,B,...", help="only these columns, as cifar10-iid")
    parser.add_argument(
        "--cells",
        metavar="A,B,...",
        help="train these cells alone, as cifar10-iid/fedrt-0 or '*/fedrt-1'; show nothing",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        dest="policies",
        metavar="NAME",
        help="one more row: a name or import path, my_pkg:MyPolicy; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of a small model, minutes")
    parser.add_argument(
        "--dtype", metavar="T", help="bfloat16 (default), float32 or float64; not with --quick"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="where cells, tables and figures are kept; default: results, or runs/quick",
    )
    parser.add_argument(
        "--merge",
        action="append",
        default=[],
        metavar="DIR",
        help="take over another --out's cells",
    )
    parser.add_argument(
        "--no-training", action="store_true", help="show what is there; train nothing"
    )
    add_training(parser)


def run(args: argparse.Namespace) -> None:
    """Train missing cells, then write and print the chosen tables and figures."""
    import fedrt

    done = fedrt.reproduce(
        args.what,
        seeds=args.seeds,
        only=args.only,
        cells=args.cells,
        policies=args.policies,
        quick=args.quick,
        dtype=args.dtype,
        out=args.out,
        merge=args.merge,
        train=not args.no_training,
        **training_options(args),
    )
    if args.cells is not None:
        print(f"{done.cells} of {done.asked} cells are in {done.folder / 'cells'}")
        return
    for made in done.made:
        if made.rows is not None:
            from fedrt.report.reproduction import print_table

            print_table(made.rows)
        elif made.text is not None:
            print(made.text)
        else:
            for picture in made.files[::ENDINGS]:
                print(f"{picture}, .pdf, .png")
    print(f"saved in {done.folder}")
