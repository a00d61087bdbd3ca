"""The world: fleet, channels, bandwidths, links, traces and faults, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.world.faults import Failures as Failures
    from fedrt.world.faults import FaultyWorld as FaultyWorld
    from fedrt.world.fleet import FleetArrays as FleetArrays
    from fedrt.world.fleet import draw_fleet as draw_fleet
    from fedrt.world.graphs import draw_base_graph as draw_base_graph
    from fedrt.world.observation import Backhaul as Backhaul
    from fedrt.world.observation import Observation as Observation
    from fedrt.world.processes import BackhaulProcess as BackhaulProcess
    from fedrt.world.processes import BandwidthProcess as BandwidthProcess
    from fedrt.world.processes import ChannelProcess as ChannelProcess
    from fedrt.world.simulated import SimulatedWorld as SimulatedWorld
    from fedrt.world.traces import read_trace as read_trace
    from fedrt.world.world import World as World
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "faults": "Failures FaultyWorld",
            "fleet": "FleetArrays draw_fleet",
            "graphs": "draw_base_graph",
            "observation": "Backhaul Observation",
            "processes": "BackhaulProcess BandwidthProcess ChannelProcess",
            "simulated": "SimulatedWorld",
            "traces": "read_trace",
            "world": "World",
        },
    )
