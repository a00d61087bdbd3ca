"""`fedrt export`: a trained model of a run as a file of another tool."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command


def add(commands: Commands[Parser]) -> None:
    """Add the command to the parser."""
    text = "write a trained model as .pt, .safetensors or .onnx"
    parser = add_command(commands, "export", run, text)
    parser.add_argument("directory", metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--model",
        default="average",
        metavar="WHICH",
        help="average (of all edge servers' models; the default), or that of one, as edge:3",
    )
    parser.add_argument(
        "--to", required=True, metavar="FILE", help="its ending says how it is written"
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let the import path of a run's own model be loaded",
    )


def run(args: argparse.Namespace) -> None:
    """Write the model; print where it is."""
    import fedrt

    print(f"model in {fedrt.export(args.directory, args.to, model=args.model)}")
