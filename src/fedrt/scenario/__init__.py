"""What a user describes: fleet, channels, backhaul, learning task, budgets."""

from fedrt.scenario.load import load_scenario, preset_names, read_scenario, scenario_text
from fedrt.scenario.model import Scenario
from fedrt.system.lazy import make_callable

__all__ = ["Scenario", "load_scenario", "preset_names", "read_scenario", "scenario_text"]

make_callable(__name__)
