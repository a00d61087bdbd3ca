"""Decisions as pure array code: allocation, topology, mixing and pacing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.control.allocation.allocate import allocate as allocate
    from fedrt.control.allocation.allocate import feasible_clusters as feasible_clusters
    from fedrt.control.allocation.limits import broken_limits as broken_limits
    from fedrt.control.allocation.priced import PricedFleet as PricedFleet
    from fedrt.control.allocation.shares import Allocation as Allocation
    from fedrt.control.allocation.shares import allocate_at as allocate_at
    from fedrt.control.allocation.shares import allocate_evenly as allocate_evenly
    from fedrt.control.allocation.shares import even_split_hz as even_split_hz
    from fedrt.control.allocation.shares import least_energy_j as least_energy_j
    from fedrt.control.mixing.convergence import ConvergenceBound as ConvergenceBound
    from fedrt.control.mixing.convergence import convergence_bound as convergence_bound
    from fedrt.control.mixing.fastest import FastWeights as FastWeights
    from fedrt.control.mixing.fastest import fastest_weights as fastest_weights
    from fedrt.control.mixing.gossip import RatedGossip as RatedGossip
    from fedrt.control.mixing.gossip import choose_gossip as choose_gossip
    from fedrt.control.mixing.gossip import gossip_on as gossip_on
    from fedrt.control.mixing.weights import best_constant_weights as best_constant_weights
    from fedrt.control.mixing.weights import contraction as contraction
    from fedrt.control.mixing.weights import metropolis_weights as metropolis_weights
    from fedrt.control.mixing.weights import mixing_of as mixing_of
    from fedrt.control.mixing.weights import mixing_weights as mixing_weights
    from fedrt.control.mixing.weights import slowest_contraction as slowest_contraction
    from fedrt.control.pacing.energy_prices import Prices as Prices
    from fedrt.control.pacing.energy_prices import Spending as Spending
    from fedrt.control.pacing.energy_prices import adjust as adjust
    from fedrt.control.pacing.energy_prices import spending as spending
    from fedrt.control.topology.components import links_by_part as links_by_part
    from fedrt.control.topology.consensus import DistanceEstimate as DistanceEstimate
    from fedrt.control.topology.consensus import consensus_limit as consensus_limit
    from fedrt.control.topology.consensus import meets_limit as meets_limit
    from fedrt.control.topology.consensus import see_backhaul as see_backhaul
    from fedrt.control.topology.consensus import shortest_paths as shortest_paths
    from fedrt.control.topology.consensus import unlinked_distance as unlinked_distance
    from fedrt.control.topology.links import best_links as best_links
    from fedrt.control.topology.links import finish_time_s as finish_time_s
    from fedrt.control.topology.links import prune_greedily as prune_greedily
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "allocation.allocate": "allocate feasible_clusters",
            "allocation.shares": (
                "Allocation allocate_at allocate_evenly even_split_hz least_energy_j"
            ),
            "allocation.limits": "broken_limits",
            "allocation.priced": "PricedFleet",
            "mixing.convergence": "ConvergenceBound convergence_bound",
            "mixing.fastest": "FastWeights fastest_weights",
            "mixing.gossip": "RatedGossip choose_gossip gossip_on",
            "mixing.weights": (
                "best_constant_weights contraction metropolis_weights mixing_of "
                "mixing_weights slowest_contraction"
            ),
            "pacing.energy_prices": "Prices Spending adjust spending",
            "topology.components": "links_by_part",
            "topology.consensus": (
                "DistanceEstimate consensus_limit meets_limit see_backhaul "
                "shortest_paths unlinked_distance"
            ),
            "topology.links": "best_links finish_time_s prune_greedily",
        },
    )
