"""The edge server's own work: training rounds, gossip and distances, as the coordinator orders."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrt.devices.actuators.base import BandwidthActuator
from fedrt.devices.common.room import Room
from fedrt.devices.common.threads import in_thread
from fedrt.devices.edge.links import PeerLinks, WrongMessageError, gossip_of
from fedrt.devices.edge.opening import Opening
from fedrt.devices.edge.orders import CoordinatorLimits
from fedrt.devices.edge.rounds import OpenRound
from fedrt.devices.edge.seats import GoneError, Seat
from fedrt.devices.edge.states import (
    PLAIN,
    START,
    Arrays,
    LostStateError,
    OtherRunError,
    States,
)
from fedrt.devices.edge.uploads import note_failure, receive
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import SPARE
from fedrt.devices.wire.party import difference, is_label, own_party, with_model, words
from fedrt.errors import FedrtError, InputError, MessageError
from fedrt.scenario import Scenario
from fedrt.system.files import UnwritableError

if TYPE_CHECKING:
    from fedrt.learning.remote import EdgeModelProcess

log = logging.getLogger(__name__)

REMEMBERED = "remembered"
"""The array of a state with the labels of devices' last updates that counted."""

REST_S = 60.0
"""So long after its last order is done an edge server keeps the process with its model."""

COUNTS = (
    "global_round",
    "updates_counted_total",
    "updates_refused_total",
    "bytes_received_total",
    "orders_total",
    "round_seconds",
)


class EdgeNode:
    """One edge server: its model, its devices and the states it has been through."""

    def __init__(self, scenario: Scenario, seed: int, number: int, folder: Path) -> None:
        self.scenario, self.seed, self.number, self.folder = scenario, seed, number, folder
        self.party = own_party(scenario, seed)
        self.limits = CoordinatorLimits.of(scenario, number)
        self.keep_updates = False
        self.seats: dict[int, Seat] = {}
        self.model: EdgeModelProcess | None = None
        self.first: Arrays = {}
        """The state before the first round."""
        self.states: States | None = None
        self.run = ""
        self.at = ""
        """The label of the state that the model is in."""
        self.newest: tuple[str, bytes] = ("", b"")
        """The label of the last state that was saved, and the model in it."""
        self.room = Room()
        self.remembered: dict[int, str] = {}
        self.round: OpenRound | None = None
        self.working = asyncio.Lock()
        self.links: PeerLinks | None = None
        self.uplinks = BandwidthActuator()
        self.counts = dict.fromkeys(COUNTS, 0.0)
        self._resting: asyncio.Task[None] | None = None
        self._opening = Opening(scenario, seed, number)

    def numbers(self) -> dict[str, float]:
        """What is told of this server while it runs."""
        return {"connected_devices": float(len(self.seats)), **self.counts}

    # ---- what the coordinator asks and orders

    async def ask(self, question: pb.Question) -> pb.Answer:
        """Join a run, and say who is connected and which peers answer."""
        theirs = difference(self.party, question.party, "the coordinator")
        if theirs is not None:
            raise InputError(theirs)
        if not is_label(question.run):
            raise InputError("the coordinator's run has no name that can be used")
        self.limits.check(question)
        async with self.at_work():
            await in_thread(self.room.check)
            if self.model is None:
                self.model, self.first = await self._opening.model(question.inputs)
                if self.links is not None:
                    self.links.most = 2 * self.model.model_bytes + SPARE
            digest = self.model.model_digest
            if self.run != question.run:
                self.states = States(self.folder / question.run)
                self.run, self.at, self.newest = question.run, "", ("", b"")
        seats = [pb.Seat(number=seat.number, samples=seat.samples) for seat in self.seats.values()]
        peers = [] if self.links is None else await self.links.answering(question.peers)
        party = with_model(self.party, digest)
        return pb.Answer(party=party, seats=seats, peers=peers)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """One order at a time; a while after the last one the model's process ends."""
        async with self.working:
            if self._resting is not None:
                self._resting.cancel()
            try:
                yield
            finally:
                self._resting = asyncio.create_task(self._rest(REST_S))

    async def _rest(self, seconds: float) -> None:
        """End the model's process after some seconds: memory is all that it holds."""
        await asyncio.sleep(seconds)
        async with self.working:
            self.newest = ("", b"")
            if self.model is not None:
                await in_thread(self.model.rest)

    async def close(self) -> None:
        """End what this server has started."""
        if self._resting is not None:
            self._resting.cancel()
        await self._opening.close()
        await self._rest(0.0)

    async def train(self, order: pb.TrainOrder) -> pb.TrainReport:
        """Order devices to train, average what they send by the deadline, and report."""
        self.limits.check(order)
        states = self.states_of(order.key.run, order.base, order.label)
        async with self.at_work():
            if states.has(order.label):
                return pb.TrainReport.FromString(states.report(order.label))
            if self.keep_updates:
                states.save_order(order.label, order.SerializeToString())
            model = await self._at(order.base)
            round_ = await self._opened(order, model)
            self.round = round_
            try:
                await self._shape(round_)
                for number in round_.locals:
                    if round_.awaits(number) and number in self.seats:
                        self.call(self.seats[number])
                # While devices train: nobody waits for it.
                await in_thread(states.forget_before, order.forget_before, self.keep_updates)
                await self._wait(round_)
            finally:
                round_.closed, self.round = True, None
            for lock in list(round_.receiving.values()):
                async with lock:  # what is being saved still counts
                    pass
            if round_.lost is not None:
                raise round_.lost
            return await self._close(round_, model)

    async def _shape(self, round_: OpenRound) -> None:
        """Hold the uploads of all connected devices to the rates of a round."""
        shares = [self.seats[n].share(round_) for n in round_.locals if n in self.seats]
        quick = self.uplinks.is_quick(shares)
        await self._enforce(round_, self.uplinks.apply, shares, quick=quick)

    async def _enforce(
        self, round_: OpenRound, change: Callable[[Any], None], rates: Any, *, quick: bool = False
    ) -> None:
        """Change what is enforced; where that fails, the round goes on without."""
        began = time.monotonic()

        def changed() -> float:
            change(rates)
            return time.monotonic() - began  # in force now, whatever this server does next

        try:
            took_s = changed() if quick else await in_thread(changed)
            round_.shape_s = max(round_.shape_s, took_s)
        except FedrtError as error:
            log.warning("%s: rates are not enforced: %s", words(round_.key), error)

    async def _wait(self, round_: OpenRound) -> None:
        if not round_.locals:
            return
        left_s = round_.began + round_.order.deadline_s - time.monotonic()
        try:
            await asyncio.wait_for(round_.complete.wait(), max(left_s, 0.0))
        except TimeoutError:
            late = sorted(round_.locals.keys() - round_.updates.keys())
            log.info("%s: left out %s", words(round_.key), late)

    async def _opened(self, order: pb.TrainOrder, model: EdgeModelProcess) -> OpenRound:
        """The round, with updates that were acknowledged before this process began."""
        given = await in_thread(
            model.orders,
            order.key.t,
            order.key.r,
            [each.number for each in order.devices],
            [each.local_steps for each in order.devices],
            [each.codec for each in order.devices] if order.coded else None,
            [each.samples for each in order.devices],
        )
        locals_ = {each.device: each for each in given}
        sent = await self.model_at(self.run, order.base)
        round_ = OpenRound(order, locals_, sent, dict(self.remembered))
        assert self.states is not None
        for number, kept in self.states.updates(order.label).items():
            if number in locals_:
                round_.add(number, kept)
        return round_

    async def _close(self, round_: OpenRound, model: EdgeModelProcess) -> pb.TrainReport:
        """Average the updates, save the state and return the report on it."""
        order = round_.order
        results = {number: update.result() for number, update in round_.updates.items()}
        self.at = ""  # until it is saved: whoever gives the order again starts from its base
        averaged = await in_thread(
            model.average,
            order.key.t,
            order.key.r,
            list(round_.locals.values()),
            results,
        )
        # As in the simulator: what a message left out is left over, also if it was an outlier.
        self.remembered |= dict.fromkeys(averaged.devices.tolist(), order.label)
        report = round_.report(averaged)
        await self._save(order.label, report)
        counts = self.counts
        counts["orders_total"] += 1
        counts["updates_counted_total"] += sum(each.delivered for each in report.devices)
        counts["global_round"], counts["round_seconds"] = float(order.key.t + 1), report.edge_s
        return report

    async def mix(self, order: pb.MixOrder) -> pb.MixReport:
        """Gossip with the neighbours, step by step, and report."""
        self.limits.check(order)
        states = self.states_of(order.key.run, order.base, order.label)
        async with self.at_work():
            if states.has(order.label):
                return pb.MixReport.FromString(states.report(order.label))
            if self.keep_updates:
                states.save_order(order.label, order.SerializeToString())
            model = await self._at(order.base)
            assert self.links is not None
            self.at = ""
            began, received, apart = time.monotonic(), 0, pb.DistanceReport()
            neighbours = {each.number: each.address for each in order.neighbours}
            await in_thread(model.begin, gossip_of(order))
            for step in range(order.steps):
                for number in neighbours:
                    message = await in_thread(model.message_to, number, step)
                    states.save_step(order.label, step, number, message)
                self.links.made.notify()
                limit_s = began + order.deadline_s - time.monotonic()
                found = await self.links.fetch_all(neighbours, order, step, limit_s)
                received += sum(map(len, found.values()))
                try:
                    if step == 0 and order.codec == PLAIN:
                        apart = await self._apart(model, found)
                    await in_thread(model.receive, step, found)
                except MessageError as error:
                    raise WrongMessageError(str(error)) from None
            await in_thread(model.end)
            report = pb.MixReport(mix_s=time.monotonic() - began, bytes=received, apart=apart)
            await self._save(order.label, report)
            return report

    async def _apart(self, model: Any, theirs: Mapping[int, Any]) -> pb.DistanceReport:
        """The distances of the model to neighbours'; one of each pair measures."""
        report = pb.DistanceReport()
        for number in sorted(n for n in theirs if n > self.number):
            try:
                report.distances.append(await in_thread(model.distance_to, theirs[number]))
            except MessageError as error:
                raise MessageError(f"edge-{number} sends a message: {error}") from None
            report.numbers.append(number)
        return report

    async def measure(self, order: pb.DistanceOrder) -> pb.DistanceReport:
        """The distances of the model to those of the neighbours."""
        self.limits.check(order)
        self.states_of(order.key.run, order.base, order.base)
        async with self.at_work():
            model = await self._at(order.base)
            assert self.links is not None
            report = pb.DistanceReport()
            for each, label in zip(order.neighbours, order.labels, strict=True):
                theirs = await self.links.model_of(each.number, each.address, self.run, label)
                if theirs is None:
                    continue
                try:
                    apart = await in_thread(model.distance_to, theirs)
                except MessageError as error:
                    log.warning("edge %d: its distance is not known: %s", each.number, error)
                    continue
                report.numbers.append(each.number)
                report.distances.append(apart)
            return report

    async def model_at(self, run: str, label: str) -> bytes:
        """The model in a state, for the coordinator or a peer."""
        states = self.states_of(run, label, label)
        if self.model is None:
            raise LostStateError(f"edge {self.number} has no model yet")
        if self.newest[0] == label:
            return self.newest[1]
        state = self.first if label == START else await in_thread(states.load, label)
        return self.model.packed(state["models"][0])

    def cannot_write(self, error: UnwritableError) -> None:
        """Note that this server cannot go on: it is silent until there is room for a round."""
        folder = self.folder if self.states is None else self.states.folder
        length = 0 if self.model is None else self.model.model_bytes
        self.room.note(error, folder, length * (2 + len(self.seats)))

    # ---- devices

    def call(self, seat: Seat) -> None:
        """Send a seated device its order, without waiting for it."""
        round_ = self.round
        if round_ is not None and round_.awaits(seat.number):
            task = asyncio.create_task(self._order(seat, round_))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _order(self, seat: Seat, round_: OpenRound) -> None:
        try:
            share = seat.share(round_)
            if not self.uplinks.holds(share):
                await self._enforce(round_, self.uplinks.add, share)
            await seat.order(round_)
        except Exception as error:  # the stream may end in the middle in many ways
            log.info("device %d: its order could not be sent: %s", seat.number, error)

    async def attend(self, seat: Seat) -> None:
        """Hear a seated device until it goes."""
        while True:
            message = await seat.read()
            match message.WhichOneof("what"):
                case "upload":
                    await receive(self, seat, message.upload)
                case "failure":
                    note_failure(self.round, seat.number, message.failure.key, message.failure.why)
                case _:
                    raise GoneError("a message that does not belong here")

    # ---- states

    def states_of(self, run: str, *labels: str) -> States:
        if run != self.run or self.states is None:
            raise OtherRunError(f"edge {self.number} is not at run {run}")
        for label in labels:
            if not is_label(label):
                raise InputError("a state has no name that can be used")
        return self.states

    async def _at(self, label: str) -> EdgeModelProcess:
        """The model in the state with the given label."""
        assert self.model is not None
        assert self.states is not None
        if self.at != label or not self.model.alive:
            state = self.first if label == START else self.states.load(label)
            self.at = ""
            await in_thread(self._restore, state)
            self.at = label
        return self.model

    def _restore(self, state: Arrays) -> None:
        assert self.model is not None
        held = dict(state)
        told = held.pop(REMEMBERED, None)
        self.remembered = {}
        if told is not None:
            self.remembered = {int(n): str(x) for n, x in json.loads(told.tobytes()).items()}
        self.model.restore(held)

    async def _save(self, label: str, report: Any) -> None:
        assert self.model is not None
        assert self.states is not None
        arrays = dict(await in_thread(self.model.state))
        told = json.dumps(self.remembered).encode()
        arrays[REMEMBERED] = np.frombuffer(told, dtype=np.uint8)
        await in_thread(self.states.save, label, arrays, report.SerializeToString())
        self.at, self.newest = label, (label, self.model.packed(arrays["models"][0]))
