"""What a user describes: fleet, channels, backhaul, learning task, budgets."""

from fedrt.scenario.load import load_scenario, preset_names, read_scenario, scenario_text
from fedrt.scenario.model import Scenario

__all__ = ["Scenario", "load_scenario", "preset_names", "read_scenario", "scenario_text"]
