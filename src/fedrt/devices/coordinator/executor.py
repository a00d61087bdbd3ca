"""Carries out plans on real devices, and reports what was measured."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.cost.round import price
from fedrt.devices.coordinator.answers import GRACE_S
from fedrt.devices.coordinator.distances import compared, distances_of, measured_distances
from fedrt.devices.coordinator.edges import LostEdgeStateError, SilentEdgeError
from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.coordinator.learned import GossipStep, Learned
from fedrt.devices.coordinator.newest import NewestModels
from fedrt.devices.coordinator.outcomes import outcome_of
from fedrt.devices.coordinator.world import slower_radio
from fedrt.devices.edge.states import PLAIN, global_round_of, label_of
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import SPARE
from fedrt.errors import MessageError
from fedrt.learning.remote.orders import gossip_orders
from fedrt.messages import Raw
from fedrt.plan import Gossip, Plan
from fedrt.rounds import ACCEPTED, ModelDistances, Outcome, RoundCost
from fedrt.world.observation import Observation

if TYPE_CHECKING:
    from fedrt.learning.remote import Evaluator

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]
BoolMatrix = NDArray[np.bool_]

MIX_FACTOR, LEAST_MIX_S = 10.0, 60.0
"""A gossip may take this multiple of its planned time, and at least so many seconds."""
MODEL_S = 600.0
SHORTEST_S = 1e-6


class RemoteExecutor:
    """Carries out plans on a fleet of real devices."""

    def __init__(
        self, fleet: RealFleet, learned: Learned, evaluator: Evaluator, base_graph: BoolMatrix
    ) -> None:
        self.fleet, self.learned, self.evaluator = fleet, learned, evaluator
        self.scenario = fleet.settings.scenario
        self.session = secrets.token_hex(4)
        self.linked = base_graph
        """Pairs of servers that gossiped last."""
        self.loss_sum, self.steps = 0.0, 0
        self.began: deque[list[str]] = deque(maxlen=2)
        """The states in which this global round began, and the one before."""
        self.ended: float | None = None
        """When the last edge round ended."""
        self.newest = NewestModels(fleet, evaluator)

    @property
    def start(self) -> ModelDistances:
        edges = len(self.fleet.labels)
        return ModelDistances(np.zeros((edges, edges)))

    def run(self, seen: Observation, plan: Plan) -> Outcome:
        """Have the plan of one edge round carried out; return what was measured."""
        began = time.monotonic() if self.ended is None else self.ended
        expected_s = self.learned.overhead_s
        outcome = self._carried_out(seen, plan)
        self.ended = time.monotonic()
        clock_s = self.ended - began
        outcome = replace(outcome, clock_s=clock_s, planned_overhead_s=expected_s)
        self.learn_overhead(outcome)
        return outcome

    def _carried_out(self, seen: Observation, plan: Plan) -> Outcome:
        reports = self.fleet.portal.call(self._train(seen, plan))
        outcome = self._reported(seen, plan, reports)
        self.learn(seen, outcome)
        last = self.scenario.rounds.edge_rounds - 1
        if last > 0 and seen.r == last - 1:
            outcome = replace(
                outcome,
                distances=measured_distances(self.fleet, self._key(seen.t, seen.r), self.linked),
            )
        if plan.gossip is not None:
            outcome = self._mixed(seen, plan.gossip, outcome)
            self.learn_gossip(seen, plan, outcome)
        return outcome

    # ---- training

    async def _train(self, seen: Observation, plan: Plan) -> list[Any]:
        planned, rates = price(plan, seen), self._rates_bps(seen, plan)
        settings = self.fleet.settings
        label = label_of(seen.t, f"{seen.r:02}", self.session)
        if seen.r == 0 or not self.began:
            self.began.append(list(self.fleet.labels))

        async def one(c: int) -> Any:
            mine = np.flatnonzero((seen.edge_of_device == c) & plan.trained)
            if not self.fleet.answered[c]:
                return None
            deadline_s = max(
                settings.least_deadline_s,
                settings.deadline_factor * float(planned.edge_time_s[c]),
            )
            order = pb.TrainOrder(
                key=self._key(seen.t, seen.r),
                base=self.fleet.labels[c],
                label=label,
                deadline_s=deadline_s,
                devices=[self._device(seen, plan, rates, int(n)) for n in mine],
                coded=plan.codec is not None,
                forget_before=self._forgettable(seen.t, c),
            )
            try:
                report = await self._trained(c, order, deadline_s + GRACE_S)
            except SilentEdgeError as error:
                log.warning("%s: its devices are left out of this round", error)
                self.fleet.answered[c] = False  # nobody waits for it again before the next round
                return None
            self.fleet.labels[c] = order.label
            return report

        return list(await asyncio.gather(*(one(c) for c in range(seen.num_edges))))

    async def _trained(self, c: int, order: pb.TrainOrder, seconds: float) -> pb.TrainReport:
        """An edge server's report on an order; one without its state gets its model back first."""
        ask = self.fleet.calls.ask
        try:
            report = await ask(c, "Train", order, seconds)
        except LostEdgeStateError as error:
            log.warning("%s", error)
            await self.newest.give_back(c, order.key.t, self.session)
            # Updates that came for the order that failed were trained from another model.
            again = f"{order.key.r:02}-{secrets.token_hex(2)}"
            order.base, order.label = (
                self.fleet.labels[c],
                label_of(order.key.t, again, self.session),
            )
            report = await ask(c, "Train", order, seconds)
        found: pb.TrainReport = report
        return found

    def _forgettable(self, t: int, c: int) -> int:
        """Before which global round a server may forget its states.

        A coordinator that is started again goes back to where its last checkpoint was, and a server
        that did not answer for long may be in an old state there.
        """
        needed = (global_round_of(labels[c]) for labels in self.began)
        return min(max(t - 2, 0), *needed)

    def _rates_bps(self, seen: Observation, plan: Plan) -> FloatArray:
        """For each device that trains, the rate of the scenario's radio in the planned bandwidth.

        Without what was learned of its uploads: a rate made lower by that would be learned again.
        """
        as_described = slower_radio(seen, 1.0 / self.learned.upload_of(seen.device))
        cost = price(plan, as_described)
        rates = np.zeros(seen.num_devices)
        np.divide(8.0 * cost.upload_bytes, cost.upload_s, out=rates, where=cost.upload_s > 0)
        return rates

    def _device(
        self, seen: Observation, plan: Plan, rates_bps: FloatArray, n: int
    ) -> pb.DeviceOrder:
        number = int(seen.device[n])
        codec = ""
        if plan.codec is not None and seen.menu is not None:
            codec = seen.menu.names[int(plan.codec[n])]
        power_w = seen.tx_power_w if plan.tx_power_w is None else plan.tx_power_w
        return pb.DeviceOrder(
            number=number,
            local_steps=int(plan.local_steps[n]),
            codec=codec,
            cpu_hz=float(plan.cpu_hz[n]),
            bandwidth_hz=float(plan.bandwidth_hz[n]),
            tx_power_w=float(power_w[n]),
            samples=self.fleet.samples.get(number, 0),
            rate_bps=float(rates_bps[n]),
        )

    def _reported(self, seen: Observation, plan: Plan, reports: list[Any]) -> Outcome:
        """What happened, from the reports; notes the losses of what was counted."""
        outcome, loss_sum = outcome_of(seen, plan, reports)
        counted = outcome.delivered
        if outcome.refused is not None:
            counted = counted & (outcome.refused == ACCEPTED)
        self.loss_sum += float(loss_sum[counted].sum())
        self.steps += int(plan.local_steps[counted].sum())
        return outcome

    def learn(self, seen: Observation, outcome: Outcome) -> None:
        """Compare what was measured with what the scenario alone lets expect."""
        now = seen.t * self.scenario.rounds.edge_rounds + seen.r
        planned, cost = outcome.planned, outcome.cost
        for n in np.flatnonzero(outcome.delivered).tolist():
            number = int(seen.device[n])
            for held, measured_s, planned_s in (
                (self.learned.cycles[number], cost.compute_s[n], planned.compute_s[n]),
                (self.learned.upload[number], cost.upload_s[n], planned.upload_s[n]),
            ):
                if planned_s > SHORTEST_S:
                    held.add(held.value * measured_s / planned_s, now)

    def learn_overhead(self, outcome: Outcome) -> None:
        """Note what an edge round took beyond its slowest device, slowest gossip and overheads.

        Overheads are those in its plan: the scenario's, and broadcasts where there is a downlink.
        """
        cost, planned = outcome.cost, outcome.planned
        if outcome.clock_s is not None and outcome.delivered.all():
            overheads_s = planned.edge_time_s.max(initial=0.0) - busy_s(planned)
            known_s = busy_s(cost) + overheads_s + cost.backhaul_s.max(initial=0.0)
            self.learned.beyond_s.append(max(outcome.clock_s - float(known_s), 0.0))

    # ---- gossip, distances and evaluation

    def _mixed(self, seen: Observation, gossip: Gossip, outcome: Outcome) -> Outcome:
        """Have all servers gossip, and evaluate their models.

        With one edge round in each global round, the next choice of links needs the distances of
        the models just before. Where these go to the neighbours as they are, the first message of
        the gossip tells. A codec's does not: then the models come here while the servers gossip.
        """
        planned_s, only = outcome.planned.backhaul_s, self.scenario.rounds.edge_rounds == 1
        orders = gossip_orders(seen.t, gossip, self.scenario)
        before: Future[list[Raw]] | None = None
        if only and any(order.codec != PLAIN for order in orders):
            before = self.fleet.portal.start(self._models(list(self.fleet.labels)))
        try:
            reports = self.fleet.portal.call(self._mix(seen, gossip, orders, planned_s))
            measured_s = np.zeros(seen.num_edges)
            for c, (report, clock_s) in reports.items():
                measured_s[c] = report.mix_s if 0 <= report.mix_s <= clock_s else clock_s
            self.newest.gossiped(
                {c: orders[c].neighbours for c in reports if orders[c].codec != PLAIN}
            )
            if only and before is None:
                found = [
                    (c, list(r.apart.numbers), list(r.apart.distances))
                    for c, (r, _) in reports.items()
                ]
                outcome = replace(outcome, distances=distances_of(seen.num_edges, found))
            self.linked = gossip.links
        except SilentEdgeError as error:
            log.warning("no gossip in global round %d: %s", seen.t, error)
            measured_s = np.zeros(seen.num_edges)
        if before is not None:
            outcome = replace(outcome, distances=self._compared(before, gossip.links))
        cost = replace(outcome.cost, backhaul_s=measured_s)
        return replace(outcome, cost=cost, metrics=self._metrics(seen.t))

    def _compared(self, models: Future[list[Raw]], links: BoolMatrix) -> ModelDistances:
        """The distances between servers with a link, from their models, which are on their way."""
        try:
            came = self.fleet.portal.result(models)
            apart = self.evaluator.distances(came)
        except (SilentEdgeError, MessageError) as error:
            log.warning("%s: distances are not known", error)
            return distances_of(len(links), [])
        return compared(apart, links & self.fleet.reachable())

    def learn_gossip(self, seen: Observation, plan: Plan, outcome: Outcome) -> None:
        """Note what the slowest link took for a gossip, and what the scenario lets expect."""
        planned_s, measured_s = outcome.planned.backhaul_s, outcome.cost.backhaul_s
        longest_s, took_s = float(planned_s.max(initial=0.0)), float(measured_s.max(initial=0.0))
        if plan.gossip is None or seen.backhaul is None or took_s <= 0:
            return
        steps, links = plan.gossip.steps, plan.gossip.links
        servers = np.flatnonzero(planned_s >= longest_s * (1 - 1e-9))
        factors = np.where(links, self.learned.backhaul_factor(), 0.0)[np.ix_(servers, servers)]
        factor = float(factors.max(initial=0.0)) or 1.0
        transfer_s = (longest_s / max(steps, 1) - seen.backhaul.latency_s) / factor
        if transfer_s > SHORTEST_S:
            overheads = self.scenario.overheads
            trip_s = 0.0 if overheads is None else overheads.round_trip_s
            step = GossipStep(transfer_s, took_s / steps - trip_s, tuple(servers.tolist()))
            self.learned.add_gossip(step, seen.t * self.scenario.rounds.edge_rounds + seen.r)

    async def _mix(
        self, seen: Observation, gossip: Gossip, orders: Sequence[Any], planned_s: FloatArray
    ) -> dict[int, Any]:
        """Have all servers gossip; either all of them do, or none. Their reports, by number."""
        deadline_s = max(LEAST_MIX_S, MIX_FACTOR * float(planned_s.max(initial=0.0)))
        label = label_of(seen.t, f"mix-{secrets.token_hex(2)}", self.session)

        async def one(c: int) -> Any:
            order = pb.MixOrder(
                key=self._key(seen.t, seen.r),
                base=self.fleet.labels[c],
                label=label,
                neighbours=[
                    pb.Neighbour(number=int(j), address=self.fleet.address(int(j)))
                    for j in orders[c].neighbours
                ],
                steps=gossip.steps,
                codec=orders[c].codec,
                deadline_s=deadline_s,
                own=orders[c].own,
                weights=orders[c].weights,
                coded_weights=orders[c].coded_weights,
                anew=[j for j in orders[c].neighbours if self.newest.anew[c, j]],
            )
            began = time.monotonic()
            report = await self.fleet.calls.ask(c, "Mix", order, deadline_s + GRACE_S)
            return report, time.monotonic() - began

        silent = ~self.fleet.answered
        edges = np.flatnonzero(~silent).tolist()
        if any(silent[list(orders[c].neighbours)].any() for c in edges):
            raise SilentEdgeError("a server that the plan links does not answer")
        tasks = [asyncio.create_task(one(c)) for c in edges]
        try:
            reports = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        for c in edges:
            self.fleet.labels[c] = label
        return dict(zip(edges, reports, strict=True))

    def _metrics(self, t: int) -> dict[str, float]:
        """Loss, and what is measured of the models, which come here for that and for exports."""
        loss = self.loss_sum / self.steps if self.steps else math.nan
        self.loss_sum, self.steps = 0.0, 0
        came = self.fleet.portal.call(self._all_models(self.fleet.labels))
        models: list[Raw] = []
        for c, found in enumerate(came):
            try:
                if isinstance(found, BaseException):
                    raise found
                self.newest.take(c, self.fleet.labels[c], found)
                models.append(found)
            except (SilentEdgeError, MessageError) as error:
                log.warning("no evaluation in global round %d: %s", t, error)
        if len(models) < len(came):
            return self.evaluator.unknown(loss)
        return self.evaluator.metrics(t, models, loss)

    async def _models(self, labels: Sequence[str]) -> list[Raw]:
        """The models of all edge servers in the given states."""
        found = await self._all_models(labels)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return found

    async def _all_models(self, labels: Sequence[str]) -> list[Any]:
        """The same; in place of a model that does not come, the error about it."""
        run, calls = self.fleet.run, self.fleet.calls
        most = self.evaluator.parts.model_bytes + SPARE

        async def one(c: int, label: str) -> Raw:
            if not self.fleet.answered[c]:
                raise SilentEdgeError(f"edge-{c}: does not answer")
            return await calls.model(c, run, label, most, MODEL_S)

        asked = (one(c, label) for c, label in enumerate(labels))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    def _key(self, t: int, r: int) -> pb.Key:
        return pb.Key(run=self.fleet.run, session=self.session, t=t, r=r)


def busy_s(cost: RoundCost) -> float:
    """The seconds of training and upload of the slowest device."""
    return float((cost.compute_s + cost.upload_s).max(initial=0.0))
