"""The simulated world: every value is a function of the seed, its name, round and subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.arrays import read_only
from fedrt.errors import InputError, reason
from fedrt.scenario.model import Custom, Scenario
from fedrt.scenario.physical import Overheads, division_of, rate_law
from fedrt.scenario.sizes import buffer_bits, message_bits, upload_bits
from fedrt.seeding import pair_uniforms, uniforms
from fedrt.system.plugins import own_code
from fedrt.units import linear_from_db
from fedrt.validation import Real
from fedrt.world.faults import Failures, FaultyWorld
from fedrt.world.fleet import FleetArrays, draw_fleet, draw_values
from fedrt.world.graphs import draw_base_graph
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation
from fedrt.world.processes import make_backhaul, make_bandwidth, make_channel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class SimulatedWorld:
    """The world of one scenario and seed, the same for every policy. Asking never changes it."""

    def __init__(self, scenario: Scenario, seed: int, fleet: FleetArrays | None = None) -> None:
        self.scenario, self.seed = scenario, seed
        if isinstance(scenario.learning.model_bits, str):
            raise ValueError("the scenario's measured settings have not been measured")
        self.model_bits = scenario.learning.model_bits
        self.buffer_bits = buffer_bits(scenario.learning)
        self.gossip_codec = scenario.learning.gossip or "none"
        self.gossip_bits = message_bits(self.gossip_codec, self.model_bits, self.buffer_bits)
        self.upload_bits = upload_bits(scenario.learning, self.model_bits)
        self.fleet = draw_fleet(scenario, seed) if fleet is None else fleet
        self.law = rate_law(scenario.channel)
        self.overheads = scenario.overheads or Overheads()
        self.gossip_bits *= self.overheads.header_factor
        self.upload_bits *= self.overheads.header_factor
        self.gossip_latency_s = self.overheads.round_trip_s
        downlink = scenario.downlink is not None
        self.overhead_s = self.overheads.of_an_edge_round_s(downlink=downlink)
        self._downlink_snr: FloatArray | None = None
        if scenario.downlink is not None and scenario.downlink.snr_db is not None:
            given = draw_values(
                scenario.downlink.snr_db, "downlink snr", self.fleet.device_key, seed
            )
            self._downlink_snr = linear_from_db(given)
        self.base_graph, self.base_graph_words = draw_base_graph(
            scenario.base_graph, self.fleet.edge_key, seed
        )
        self._channel = make_channel(scenario, self.fleet, seed)
        self._bandwidth = make_bandwidth(scenario, self.fleet, seed)
        self._backhaul = make_backhaul(scenario, self.fleet, self.base_graph, seed)
        self.faults: FaultyWorld | None = None
        if scenario.faults is not None:
            self.faults = FaultyWorld(
                scenario.faults, scenario.rounds, self.fleet, self.base_graph, seed
            )

    @cached_property
    def cycles(self) -> FloatArray:
        """The CPU cycles of one edge round's training on each device: W_n = S I mu_n."""
        steps, batch = self.scenario.rounds.local_steps, self.scenario.learning.batch_size
        return read_only(steps * batch * self.fleet.cycles_per_sample)

    def edges_at(self, t: int, r: int) -> NDArray[np.int64]:
        """The edge server of every device in an edge round."""
        return self.fleet.edge_of_device

    def taking_part(self, t: int, r: int) -> NDArray[np.int64]:
        """The devices drawn to train in an edge round: a share of each cluster, or all."""
        fleet = self.fleet
        everyone = np.arange(fleet.num_devices)
        if self.scenario.learning.participation == 1:
            return everyone
        draw = uniforms(fleet.device_key, self.seed, "participation", t, r)
        edge = self.edges_at(t, r)
        size, chosen = self._drawn_of(edge)
        order = np.lexsort((draw, edge))
        first = np.concatenate(([0], np.cumsum(size)[:-1]))
        in_order = edge[order]
        return np.sort(order[everyone - first[in_order] < chosen[in_order]])

    @property
    def participation(self) -> FloatArray:
        """For each device, the share of edge rounds in which it is drawn to train."""
        size, chosen = self._drawn_of(self.fleet.edge_of_device)
        return (chosen / np.maximum(size, 1))[self.fleet.edge_of_device]

    def _drawn_of(
        self, edge_of_device: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each edge server, its devices and how many are drawn in an edge round.

        At least one is drawn.
        """
        size = np.bincount(edge_of_device, minlength=self.fleet.num_edges)
        share = self.scenario.learning.participation
        return size, np.maximum(1, np.floor(share * size + 0.5).astype(np.int64))

    def failures(self, seen: Observation) -> Failures | None:
        """What fails in the observed edge round; None in a world without faults."""
        if self.faults is None:
            return None
        expected = self.taking_part(seen.t, seen.r)
        return self.faults.failures(seen, expected, self.edges_at(seen.t, seen.r)[expected])

    def links_up(self, t: int) -> NDArray[np.bool_]:
        """The links that can be used in global round t: the base graph less what is down."""
        return self.base_graph if self.faults is None else self.faults.links_up(t)

    def observe(self, t: int, r: int, who: NDArray[np.int64] | None = None) -> Observation:
        """The devices and their channels before edge round r of global round t, without backhaul.

        `who` names the devices; None means those that are to train and are there.
        """
        fleet, rounds = self.fleet, self.scenario.rounds
        edge_of_device = self.edges_at(t, r)
        if who is None:
            who = self.taking_part(t, r)
            if self.faults is not None:
                who = who[self.faults.starts(t, who, edge_of_device[who])]
        who = who[np.argsort(edge_of_device[who], kind="stable")]
        when = f"in global round {t}, edge round {r}"
        snr_db = _given(
            self.scenario.channel,
            lambda: self._channel.snr_db(t, r),
            (fleet.num_devices,),
            q.GAIN_DB if self.law.gives_gains else q.SNR_DB,
            f"scenario.channel.snr_db {when}",
        )
        bandwidth_hz = _given(
            self.scenario.bandwidth,
            lambda: self._bandwidth.hz(t, r),
            (fleet.num_edges,),
            q.BANDWIDTH_HZ,
            f"scenario.bandwidth.hz {when}",
        )
        rule = q.GAIN_DB if self.law.gives_gains else q.SNR_DB
        # Drawn values have tails; no radio works beyond these ends.
        ratio = linear_from_db(np.clip(snr_db, rule.least, rule.most)[who])
        laws, snr = self._laws(who, edge_of_device[who], ratio, bandwidth_hz)
        return Observation(
            model_bits=self.model_bits,
            local_steps=rounds.local_steps,
            gossip_steps=rounds.gossip_steps,
            edge_of_device=edge_of_device[who],
            cycles=self.cycles[who],
            snr=snr,
            tx_power_w=fleet.tx_power_w[who],
            capacitance=fleet.capacitance[who],
            cpu_min_hz=fleet.cpu_min_hz[who],
            cpu_max_hz=fleet.cpu_max_hz[who],
            edge_bandwidth_hz=bandwidth_hz,
            t=t,
            r=r,
            device=who,
            gossip_codec=self.gossip_codec,
            gossip_bits=self.gossip_bits,
            upload_bits=np.full(len(who), self.upload_bits),
            buffer_bits=self.buffer_bits,
            laws=laws,
        )

    def _laws(
        self, who: IntArray, edge: IntArray, ratio: FloatArray, bandwidth_hz: FloatArray
    ) -> tuple[Laws, FloatArray]:
        """The physical layer of an edge round, and the devices' SNRs.

        `ratio` is what the channel gives for each device, an SNR or a gain.
        """
        scenario, fleet = self.scenario, self.fleet
        cn0_hz, snr = None, ratio
        if self.law.spreads_noise:
            scale = self.law.reference_hz
            cn0_hz = ratio * (
                fleet.tx_power_w[who] / self.law.noise_w_per_hz if scale is None else scale
            )
            cn0_hz = np.clip(cn0_hz, q.CN0_HZ.least, q.CN0_HZ.most)
            size = np.bincount(edge, minlength=fleet.num_edges)
            snr = cn0_hz / (bandwidth_hz / np.maximum(size, 1))[edge]
        laws = Laws(
            cn0_hz=cn0_hz,
            power_control=bool(self.law.power_control),
            block_hz=division_of(scenario.bandwidth).block_hz,
            rx_power_w=None if fleet.rx_power_w is None else fleet.rx_power_w[who],
            idle_power_w=None if fleet.idle_power_w is None else fleet.idle_power_w[who],
            overhead_s=self.overhead_s,
            header_factor=self.overheads.header_factor,
            cpu=fleet.cpu_of(who),
        )
        if scenario.downlink is None:
            return laws, snr
        return replace(laws, listen_s=self._listen_s(who, edge, snr, cn0_hz, bandwidth_hz)), snr

    def _listen_s(
        self,
        who: IntArray,
        edge: IntArray,
        snr: FloatArray,
        cn0_hz: FloatArray | None,
        bandwidth_hz: FloatArray,
    ) -> FloatArray:
        """The seconds of a broadcast at each device's rate."""
        downlink = self.scenario.downlink
        assert downlink is not None
        hz = bandwidth_hz[edge] if downlink.hz is None else np.full(len(who), downlink.hz)
        if self._downlink_snr is not None:
            snr = self._downlink_snr[who]
        else:
            louder = downlink.tx_power_w / self.fleet.tx_power_w[who]
            snr = louder * (snr if cn0_hz is None else cn0_hz / hz)
        bits = (downlink.bits or self.model_bits) * self.overheads.header_factor
        return np.asarray(bits * np.log(2.0) / (hz * np.log1p(snr)))

    def backhaul_bps(self, t: int) -> FloatArray:
        """The link speeds in global round t in bit/s; 0 where there is no link or it is down."""
        settings, size = self.scenario.backhaul, self.fleet.num_edges
        where = f"scenario.backhaul.bps in global round {t}"
        ask, shape = (lambda: self._backhaul.bps(t)), (size, size)
        bps = _given(settings, ask, shape, q.LINK_BPS, where, self.base_graph)
        if isinstance(settings, Custom) and not (
            np.array_equal(bps, bps.T) and (bps[self.base_graph] > 0).all()
        ):
            rule = "symmetric and > 0 on every link of the base graph"
            raise InputError(f"{where}: must be {rule}")
        return np.where(self.links_up(t), bps, 0.0)

    def stand_in_distance(self, t: int) -> FloatArray:
        """Drawn consensus distances for runs without training: 1 + 0.3 U(0, 1) for each pair."""
        distance = 1.0 + 0.3 * pair_uniforms(self.fleet.edge_key, self.seed, "distance", t)
        np.fill_diagonal(distance, 0.0)
        return distance


def _given(
    settings: object,
    ask: Callable[[], Any],
    shape: tuple[int, ...],
    rule: Real,
    where: str,
    needed: NDArray[np.bool_] | None = None,
) -> FloatArray:
    """The values of a process; those of a user's own process are copied and checked."""
    if not isinstance(settings, Custom):
        answer: FloatArray = ask()
        return answer
    with own_code(where):
        values = ask()
    try:
        if np.iscomplexobj(values):
            raise TypeError("it has complex ones")
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: must be an array of numbers: {reason(error)}") from error
    if array.shape != shape:
        raise InputError(f"{where} has the shape {array.shape}: must be {shape}")
    if needed is not None:
        array = np.where(needed, array, 0.0)
    good = rule.holds_for(array)
    if not good.all():
        raise InputError(f"{where} = {array[~good][0]:g}: must be {rule.wording}")
    return array
