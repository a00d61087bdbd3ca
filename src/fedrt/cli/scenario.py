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
    from fedrt.scenario import load_scenario, preset_names

    names = preset_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {load_scenario(name).description}")


def run_show(args: argparse.Namespace) -> None:
    """Print a scenario as TOML."""
    from fedrt.scenario import load_scenario, scenario_text

    print(scenario_text(load_scenario(args.scenario, args.settings)), end="")


def run_check(args: argparse.Namespace) -> None:
    """Check that a scenario is valid and its world can be made; print what is wrong."""
    from dataclasses import replace

    from fedrt.scenario import load_scenario
    from fedrt.scenario.classes import with_setting
    from fedrt.scenario.model import MEASURED
    from fedrt.scenario.tables.fields import PerDevice
    from fedrt.world.simulated import SimulatedWorld

    scenario = load_scenario(args.scenario, args.settings)
    fleet = scenario.fleet
    if scenario.needs_measuring:  # which takes the model and the data: any number does here
        learning = replace(scenario.learning, model_bits=1.0)
        fleet = with_setting(fleet, "cycles_per_sample", MEASURED, PerDevice(1.0, 1.0))
        scenario = replace(scenario, learning=learning, fleet=fleet)
    SimulatedWorld(scenario, seed=0)
    print(f"{args.scenario}: valid, {fleet.num_devices} devices on {fleet.num_edges} edge servers")
