"""`fedrt bench`: every policy on fixed worlds, above a lower bound on plans of the same work."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command, add_out, add_resume, show_study


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = (
        "every policy on fixed worlds, in percent above a time that no plan of the same work"
        " undercuts within fedrt's contraction and energy"
    )
    parser = add_command(commands, "bench", run, text)
    parser.add_argument(
        "--worlds", metavar="A,B,...", help="some of the bench's worlds; default: all"
    )
    parser.add_argument(
        "--policies",
        metavar="A,B,...",
        help="names or import paths, perhaps with options, comma-separated; all: every shipped one,"
        " as in all,my_pkg:P; default: all",
    )
    parser.add_argument("--seeds", metavar="0,1,...", help="default: 0,1,2")
    parser.add_argument("--jobs", metavar="N", help="processes; default: one for each processor")
    parser.add_argument(
        "--bounds",
        action="store_true",
        help="make the bounds of the worlds anew and put them into the package; scores nothing",
    )
    add_out(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let import paths in files be loaded; those in options always are",
    )
    add_resume(parser)


def run(args: argparse.Namespace) -> None:
    """Score every policy on every world; print tables or JSON."""
    from rich.console import Console

    import fedrt
    from fedrt.report.bench.table import bench_tables, bounds_table

    result = fedrt.bench(
        args.worlds,
        policies=args.policies,
        seeds=args.seeds,
        bounds=args.bounds,
        jobs=args.jobs,
        out=args.out,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=not args.json,
    )

    def show(out: Console) -> None:
        if "bounds" in result.data:
            out.print(bounds_table(result.found))
            return
        for table in bench_tables(result.data):
            out.print(table)
        print(f"the page: {result.folder / 'page.html'}")

    show_study(result, args.json, show, None)
