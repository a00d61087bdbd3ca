"""The faults of a simulated world: devices, servers and links that fail, keyed by the seed.

Who has left, which servers are down and which links, is known when a round is planned. Who falls
silent and who is slow shows only in the course of the edge round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedrt.graph import BoolMatrix
from fedrt.scenario.faults import AnyFail, Attack, Faults, SomeFail
from fedrt.scenario.model import Rounds
from fedrt.scenario.processes import Trace
from fedrt.seeding import KeyArray, pair_uniforms, uniforms
from fedrt.validation import Real
from fedrt.world.fault_processes import (
    ZERO_OR_ONE,
    Cuts,
    Flags,
    Never,
    Some,
    TableFlags,
    drawn_flags,
)
from fedrt.world.fleet import FleetArrays
from fedrt.world.observation import Observation
from fedrt.world.processes import link_trace, whole_trace

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

SPEED = Real(above=0, most=1)


@dataclass(frozen=True)
class Failures:
    """What fails in one edge round; arrays over devices have the order of the observation."""

    silent: BoolArray
    cpu_fraction: FloatArray
    """The share of the planned frequency; 1 except for stragglers."""
    expected: IntArray
    """For each edge server, the devices that would train if nothing failed."""
    absent: IntArray
    """For each edge server, those of them that are absent."""
    idle: IntArray
    """For each edge server, those of them that are there while the server is down."""
    server_up: BoolArray
    links_down: int
    """Links of the base graph that cannot be used in this global round."""


class FaultyWorld:
    """The faults of a scenario under a seed. Asking never changes them."""

    def __init__(
        self, faults: Faults, rounds: Rounds, fleet: FleetArrays, base_graph: BoolMatrix, seed: int
    ) -> None:
        self.settings, self.rounds, self.fleet = faults, rounds, fleet
        self.base_graph, self.seed = base_graph, seed
        device, edge = fleet.device_key, fleet.edge_key
        self._silent = self._flags(faults.silent, "silent", "device", device, by_edge_round=True)
        self._absent = self._flags(faults.absent, "absent", "device", device)
        self._server_down = self._flags(faults.server_down, "down", "edge", edge)
        self._speeds = self._speed_table(faults.straggler)
        self._slow: Flags = Never(np.zeros(len(device), dtype=bool))
        if self._speeds is None:
            self._slow = self._flags(
                faults.straggler, "straggler", "device", device, by_edge_round=True
            )
        self._link_down = self._link_flags(faults.link_down)
        self._cut = self._cuts(faults.cut)

    def starts(self, t: int, expected: IntArray, edge: IntArray) -> BoolArray:
        """Which of the devices that were drawn to train are there, at servers that are up."""
        return ~self._absent.at(t)[expected] & self.server_up(t)[edge]

    def failures(self, seen: Observation, expected: IntArray, edge: IntArray) -> Failures:
        """What fails in an edge round in which the devices `expected` were to train.

        Those that are there and not observed are left out of plans, and do not count.
        """
        t, who = seen.t, seen.device
        step = t * self.rounds.edge_rounds + seen.r
        left_out = self.starts(t, expected, edge) & ~np.isin(expected, who)
        expected, edge = expected[~left_out], edge[~left_out]
        server_up, present = self.server_up(t), ~self._absent.at(t)[expected]

        def count(which: BoolArray) -> IntArray:
            return np.bincount(edge[which], minlength=self.fleet.num_edges)

        lost = self.base_graph & ~self.links_up(t)
        return Failures(
            silent=self._silent.at(step)[who],
            cpu_fraction=self._cpu_fraction(step)[who],
            expected=count(np.ones(len(expected), dtype=bool)),
            absent=count(~present),
            idle=count(present & ~server_up[edge]),
            server_up=server_up,
            links_down=int(lost.sum()) // 2,
        )

    def server_up(self, t: int) -> BoolArray:
        """Which servers are up in global round t."""
        return ~self._server_down.at(t)

    def links_up(self, t: int) -> BoolMatrix:
        """The links of the base graph that can be used in global round t.

        Both ends up, the link itself up, and not across a cut.
        """
        up, side = self.server_up(t), self._cut.at(t)
        whole = self.base_graph & ~self._link_down.at(t) & (side[:, None] == side[None, :])
        return whole & up[:, None] & up[None, :]

    @cached_property
    def attackers(self) -> BoolArray:
        """For each device, whether it is an attacker, throughout the run."""
        fleet = self.fleet
        who = (fleet.device_key, fleet.edge_of_device)
        return draw_attackers(self.settings.attack, *who, self.seed)

    def _cpu_fraction(self, step: int) -> FloatArray:
        if self._speeds is not None:
            return np.asarray(self._speeds[step % len(self._speeds)])
        return np.where(self._slow.at(step), self.settings.straggler_speed, 1.0)

    def _flags(
        self,
        settings: SomeFail | None,
        name: str,
        whom: str,
        keys: KeyArray,
        *,
        by_edge_round: bool = False,
    ) -> Flags:
        """The process of one kind of fault; `name` is its value column in a trace."""
        if settings is None:
            return Never(np.zeros(len(keys), dtype=bool))
        if isinstance(settings, Trace):
            table = self._table(settings, name, whom, keys, ZERO_OR_ONE, by_edge_round)
            return TableFlags(table == 1)
        flags = drawn_flags(
            settings, lambda step: uniforms(keys, self.seed, f"{whom} {name}", step)
        )
        return flags if settings.only is None else Some(flags, np.isin(keys, settings.only))

    def _table(
        self, settings: Trace, name: str, whom: str, keys: KeyArray, rule: Real, by_edge_round: bool
    ) -> FloatArray:
        """The values of a trace, with time on the first axis."""
        sizes = {"global_round": 0}
        if by_edge_round:
            sizes["edge_round"] = self.rounds.edge_rounds
        sizes[whom] = len(keys)
        table = whole_trace(settings, sizes, name, rule, self.rounds)
        return table.reshape(-1, len(keys))[:, keys]

    def _speed_table(self, settings: SomeFail | None) -> FloatArray | None:
        if not isinstance(settings, Trace):
            return None
        keys = self.fleet.device_key
        return self._table(settings, "cpu_fraction", "device", keys, SPEED, by_edge_round=True)

    def _link_flags(self, settings: AnyFail | None) -> Flags:
        keys = self.fleet.edge_key
        if settings is None:
            return Never(np.zeros_like(self.base_graph))
        if isinstance(settings, Trace):
            fleet, rounds, graph = self.fleet, self.rounds, self.base_graph
            table = link_trace(settings, "down", ZERO_OR_ONE, fleet, rounds, graph)
            return TableFlags(table[:, keys][:, :, keys] == 1)
        return drawn_flags(settings, lambda t: pair_uniforms(keys, self.seed, "link down", t))

    def _cuts(self, settings: AnyFail | None) -> Flags:
        keys = self.fleet.edge_key
        if settings is None:
            return Never(np.zeros(len(keys), dtype=bool))
        if isinstance(settings, Trace):
            table = self._table(settings, "side", "edge", keys, ZERO_OR_ONE, by_edge_round=False)
            return TableFlags(table == 1)
        given = self.settings.cut_servers

        def sides(began: int) -> BoolArray:
            if given is not None:
                return np.isin(keys, given)
            draw = uniforms(keys, self.seed, "cut sides", began)
            return np.argsort(np.argsort(draw, kind="stable"), kind="stable") < len(keys) // 2

        once = np.zeros(1, dtype=np.int64)
        return Cuts(drawn_flags(settings, lambda t: uniforms(once, self.seed, "cut", t)), sides)


def draw_attackers(
    attack: Attack | None, device_key: KeyArray, edge_of_device: IntArray, seed: int
) -> BoolArray:
    """For each device, whether it is an attacker: those that are named, or a share of a cluster."""
    chosen = np.zeros(len(device_key), dtype=bool)
    if attack is None:
        return chosen
    if attack.devices is not None:
        return np.isin(device_key, attack.devices)
    share = attack.share or 0.0
    draw = uniforms(device_key, seed, "attackers")
    for edge in range(int(edge_of_device.max(initial=-1)) + 1):
        mine = np.flatnonzero(edge_of_device == edge)
        count = int(np.floor(share * len(mine) + 0.5))
        chosen[mine[np.argsort(draw[mine], kind="stable")[:count]]] = True
    return chosen
