"""The hindsight bound of one world: its rounds as arrays, and the search for the best bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.duality import WholeRun
from fedrt.bound.joule_prices import JoulePrices
from fedrt.bound.link_choices import RoundLinks, link_times, refine
from fedrt.bound.other_laws import Fixed, SpreadNoise
from fedrt.control.allocation.shares import usable_bandwidth_hz
from fedrt.control.coding.menu import gossip_codec
from fedrt.control.topology.consensus import see_backhaul
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.paper_form import cubic_law_below
from fedrt.cost.uplink import hertz_seconds
from fedrt.scenario.sizes import message_bits
from fedrt.world.observation import Menu
from fedrt.world.simulated import SimulatedWorld

FloatArray = NDArray[np.float64]

# How often the covers of the links are refined and the prices improved, and steps of each.
TURNS, PASSES, MULTIPLIED = 6, 24, 60
FEWEST_TANGENTS = 2
SETTLED = 1e-5
"""The share of the bound that an iteration must gain for another to follow."""


@dataclass(frozen=True)
class RelaxedRun:
    """A run in the paper's form whose least time no plan of the world beats (`other_laws`)."""

    run: WholeRun
    fixed: Fixed
    noise: SpreadNoise | None


def relaxed_run(world: SimulatedWorld, menu: Menu | None = None) -> RelaxedRun:
    """All edge rounds of a world as arrays; with a menu each upload may choose its codec.

    Its bits are then those of one codec for all, to begin with.
    """
    rounds, fleet = world.scenario.rounds, world.fleet
    every = [
        world.observe(t, r, world.taking_part(t, r))
        for t in range(rounds.global_rounds)
        for r in range(rounds.edge_rounds)
    ]
    of_bit = np.concatenate([hertz_seconds(1.0, seen.snr) for seen in every])
    if menu is None:
        whole = np.concatenate([hertz_seconds(seen.upload_bits, seen.snr) for seen in every])
    else:
        whole = of_bit * menu.bits[menu.uniform]
    a, more_j = cubic_law_below(fleet.cpu, world.cycles, fleet.capacitance)
    controlled = any(seen.laws.power_control for seen in every)
    sizes = np.concatenate([seen.cluster_size for seen in every])
    run = WholeRun(
        first=np.concatenate(([0], np.cumsum(sizes))),
        device=np.concatenate([seen.device for seen in every]),
        k=whole,
        bandwidth_hz=np.concatenate([usable_bandwidth_hz(seen) for seen in every]),
        global_rounds=rounds.global_rounds,
        edge_rounds=rounds.edge_rounds,
        num_edges=fleet.num_edges,
        cycles=world.cycles,
        joules_per_hz2=a,
        tx_power_w=np.zeros_like(fleet.tx_power_w) if controlled else fleet.tx_power_w,
        cpu_min_hz=fleet.cpu_min_hz,
        cpu_max_hz=fleet.cpu_max_hz,
        menu=menu,
        bit_hz_s=of_bit,
    )
    fixed = Fixed.of(every, rounds.edge_rounds, more_j, menu)
    cn0_hz = [seen.laws.cn0_hz for seen in every if seen.laws.cn0_hz is not None]
    if not cn0_hz:
        return RelaxedRun(run, fixed, None)
    noise = SpreadNoise(np.concatenate(cn0_hz), run.bandwidth_hz)
    return RelaxedRun(noise.even(run), fixed, noise)


def round_links(
    world: SimulatedWorld,
    distances: Sequence[FloatArray],
    rho: float | FloatArray | None,
    menu: Menu | None = None,
) -> list[RoundLinks]:
    """The links of every global round, each with a first cover of its possible choices."""
    steps, bits = world.scenario.rounds.gossip_steps, world.gossip_bits
    if menu is not None:
        sizes = (world.model_bits, world.buffer_bits)
        bits = message_bits(gossip_codec(menu, world.gossip_codec, *sizes), *sizes)
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
    links, relaxed = round_links(world, distances, rho, menu), relaxed_run(world, menu)
    fixed, noise = relaxed.fixed, relaxed.noise
    times = fixed.added_to(link_times(links))
    search = JoulePrices.start(relaxed.run, fixed.limits_j(limit_j), times)
    search.multiply(times, MULTIPLIED)
    for turn in range(TURNS):
        before = search.best_s
        refine(links, search.prices.share, PASSES)
        if noise is not None:
            search.run = noise.again(search.run, search.prices)
        search.multiply(fixed.added_to(link_times(links)), MULTIPLIED)
        settled = search.best_s - before <= SETTLED * search.best_s
        if settled and (noise is None or turn >= FEWEST_TANGENTS):
            break
    return search.best_s, refine(links, search.prices.share, 0)
