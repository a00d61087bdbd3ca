"""`fedrt scenario list | show | check`."""

from __future__ import annotations

import argparse

from fedrt.cli.parser import Commands, Parser, add_command, add_settings


def add(commands: Commands[Parser]) -> None:
    """Add the commands to the parser."""
    text = "list, show and check scenarios"
    scenario = commands.add_parser("scenario", help=text, description=text)
    actions = scenario.add_subparsers(metavar="ACTION", required=True)
    add_command(actions, "list", run_list, "the shipped scenarios")
    show = add_command(actions, "show", run_show, "a scenario as TOML, defaults included")
    check = add_command(actions, "check", run_check, "whether a file is a valid scenario")
    show.add_argument("scenario", metavar="NAME", help="a shipped scenario or a TOML file")
    check.add_argument("scenario", metavar="FILE", help="a TOML file or a shipped scenario")
    for command in (show, check):
        add_settings(command)


def run_list(args: argparse.Namespace) -> None:
    """Print one line for every shipped scenario."""
    import fedrt

    names = fedrt.preset_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {fedrt.scenario(name).description}")


def run_show(args: argparse.Namespace) -> None:
    """Print a scenario as TOML."""
    import fedrt

    print(fedrt.scenario_text(fedrt.scenario(args.scenario, args.settings)), end="")


def run_check(args: argparse.Namespace) -> None:
    """Check that a scenario is valid and its world can be made; print what is wrong."""
    import fedrt
    from fedrt.scenario.placing import class_counts

    fleet = fedrt.check(args.scenario, args.settings).fleet
    counts = ", ".join(f"{count} {name}" for name, count in class_counts(fleet).items())
    devices = f"{fleet.num_devices} devices" + (f" ({counts})" if counts else "")
    print(f"{args.scenario}: valid, {devices} on {fleet.num_edges} edge servers")
