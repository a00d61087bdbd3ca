"""The hindsight bound of one world: its rounds as arrays, and the search for the best bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.duality import WholeRun
from fedrt.bound.joule_prices import JoulePrices
from fedrt.bound.link_choices import RoundLinks, link_times, refine
from fedrt.control.coding.menu import gossip_codec
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.uplink import hertz_seconds
from fedrt.scenario.sizes import message_bits
from fedrt.world.observation import Menu
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

# How often the covers of the links are refined and the prices improved, and steps of each.
TURNS, PASSES, MULTIPLIED = 6, 24, 60
SETTLED = 1e-5
"""The share of the bound that an iteration must gain for another to follow."""


def whole_run(world: SimulatedWorld, menu: Menu | None = None) -> WholeRun:
    """All edge rounds of a world as arrays; with a menu each upload may choose its codec.

    Its bits are then those of one codec for all, to begin with.
    """
    rounds, fleet = world.scenario.rounds, world.fleet
    sizes, device, k, bandwidth_hz, bit_hz_s = [], [], [], [], []
    for t in range(rounds.global_rounds):
        for r in range(rounds.edge_rounds):
            seen = world.observe(t, r, world.taking_part(t, r))
            sizes.append(seen.cluster_size)
            device.append(seen.device)
            k.append(hertz_seconds(seen.upload_bits, seen.snr))
            bit_hz_s.append(hertz_seconds(1.0, seen.snr))
            bandwidth_hz.append(seen.edge_bandwidth_hz)
    of_bit = np.concatenate(bit_hz_s)
    whole = np.concatenate(k) if menu is None else of_bit * menu.bits[menu.uniform]
    return WholeRun(
        first=np.concatenate(([0], np.cumsum(np.concatenate(sizes)))),
        device=np.concatenate(device),
        k=whole,
        bandwidth_hz=np.concatenate(bandwidth_hz),
        global_rounds=rounds.global_rounds,
        edge_rounds=rounds.edge_rounds,
        num_edges=fleet.num_edges,
        cycles=world.cycles,
        joules_per_hz2=fleet.capacitance * world.cycles / 2,
        tx_power_w=fleet.tx_power_w,
        cpu_min_hz=fleet.cpu_min_hz,
        cpu_max_hz=fleet.cpu_max_hz,
        menu=menu,
        bit_hz_s=of_bit,
    )


def round_links(
    world: SimulatedWorld,
    distances: Sequence[FloatArray],
    rho: float | FloatArray | None,
    menu: Menu | None = None,
) -> list[RoundLinks]:
    """The links of every global round, each with a first cover of its possible choices."""
    steps, bits = world.scenario.rounds.gossip_steps, world.gossip_bits
    if menu is not None:
        codec = gossip_codec(menu, world.gossip_codec)
        bits = message_bits(codec, world.model_bits, world.buffer_bits)
        bits *= world.overheads.header_factor
    rounds = []
    limits = [None] * len(distances) if rho is None else np.broadcast_to(rho, len(distances))
    for t, distance in enumerate(distances):
        seen = see_backhaul(world.scenario, world.backhaul_bps(t), distance)
        step_s = link_time_s(bits, 1, seen.bps, seen.latency_s)
        limit = limits[t]
        most = None if limit is None else float(limit)
        rounds.append(
            RoundLinks(step_s, seen.consensus_distance, seen.consensus_limit, most, steps)
        )
    return rounds


def hindsight_bound(
    world: SimulatedWorld,
    distances: Sequence[FloatArray],
    limit_j: FloatArray,
    rho: float | FloatArray | None,
    menu: Menu | None = None,
) -> tuple[float, int]:
    """A time in seconds that no plan within the limits can beat, and the rounds left unrefined.

    `rho` is one limit for all global rounds, one for each of them, or None. With a menu each upload
    may choose its codec, within the limit on the distortion.
    """
    links = round_links(world, distances, rho, menu)
    search = JoulePrices.start(whole_run(world, menu), limit_j)
    search.multiply(link_times(links), MULTIPLIED)
    for _ in range(TURNS):
        before = search.best_s
        refine(links, search.prices.share, PASSES)
        search.multiply(link_times(links), MULTIPLIED)
        if search.best_s - before <= SETTLED * search.best_s:
            break
    return search.best_s, refine(links, search.prices.share, 0)
