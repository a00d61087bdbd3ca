"""`fedrt device`: the agent that trains on one device, for as long as it runs."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import grpc

from fedrt.devices.actuators.device import DeviceActuators
from fedrt.devices.common.metrics import Metrics
from fedrt.devices.common.room import Room
from fedrt.devices.common.settings import DeviceSettings
from fedrt.devices.common.threads import in_thread
from fedrt.devices.device.limits import OrderLimits
from fedrt.devices.device.memory import DeviceMemory, forget_runs
from fedrt.devices.security import Party, ended, open_channel, until_revoked
from fedrt.devices.security.connections import RECHECK_S
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import BrokenPayloadError, chunks_of, gathered, head_of
from fedrt.devices.wire.party import difference, own_party, words
from fedrt.devices.wire.raw import IN_STREAM, raw_chunk
from fedrt.devices.wire.services import call, reason_of
from fedrt.errors import FedrtError, InputError, one_line, reason
from fedrt.messages import Raw
from fedrt.scenario import Scenario
from fedrt.system.files import UnwritableError, private_files
from fedrt.world.fleet import draw_fleet

if TYPE_CHECKING:
    from fedrt.learning.remote import LocalTrainer

log = logging.getLogger(__name__)

SHORTEST_S, LONGEST_S = 0.2, 15.0
"""Waits between two tries to reach the edge server; each is twice the last, with jitter."""
COUNTS = ("connected", "orders_total", "train_seconds", "global_round")
FINAL = {
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
}
"""Answers that trying again does not change."""
MEMORIES, SESSIONS = 16, 8
"""What is remembered of a run at most: this many orders, and those of so many global rounds."""
LAST_WORDS_S = 5.0
"""How long an edge server that takes nothing any more gets to say why."""


class StoppedError(FedrtError):
    """Raised between two local steps once the agent is to stop."""


@dataclass(frozen=True)
class OrderedWork:
    """An order with all that came with it."""

    order: pb.Order
    model: Raw
    correction: Raw
    download_s: float

    @property
    def name(self) -> bytes:
        """What makes it the same order again."""
        return bytes(self.order.key.SerializeToString(deterministic=True) + self.order.model.digest)


@dataclass(frozen=True)
class Done:
    """What came of an order: an update, or why there is none."""

    upload: pb.Upload | None
    message: Raw = b""
    variate: Raw = b""
    why: str = ""


class DeviceAgent:
    """The agent of one device."""

    def __init__(self, settings: DeviceSettings) -> None:
        self.settings = settings
        scenario, seed = settings.scenario, settings.seed
        self.party = own_party(scenario, seed)
        fleet = draw_fleet(scenario, seed)
        edge = int(fleet.edge_of_device[settings.number])
        self.edge = Party("edge", f"edge-{edge}")
        self.limits = OrderLimits.of(scenario, fleet.edge_of_device, edge)
        given = (scenario, seed, settings.number, Path(settings.data))
        self.trainer = local_trainer(*given)
        self.trainer.threads = settings.threads
        cpu_max_hz = float(fleet.cpu_max_hz[settings.number])
        self.actuators = DeviceActuators.open(settings, cpu_max_hz)
        self.memory: DeviceMemory | None = None
        self.run = ""
        self.done: tuple[bytes, Done] | None = None
        """The last order, and what came of it: the server may ask again."""
        self.newest: OrderedWork | None = None
        self.room = Room()
        self.wake = asyncio.Event()
        self.one_at_a_time = Lock()
        self.stopping = Event()
        self.counts = dict.fromkeys(COUNTS, 0.0)
        """What is told of this device while it runs."""

    async def serve(self, stop: asyncio.Event) -> None:
        """Attend to the edge server until told to stop; come back whenever the stream ends."""
        with private_files():
            await self._serve(stop)

    async def _serve(self, stop: asyncio.Event) -> None:
        given = self.settings
        if given.preload:
            await asyncio.to_thread(self.trainer.warm)
        metrics = await Metrics.maybe(given.metrics, given.name, self.counts.copy)
        wait_s, stopped = SHORTEST_S, asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                ready = await asyncio.to_thread(self._has_room)
                was_welcome = ready and await self._attend_until(stopped)
                wait_s = SHORTEST_S if was_welcome else min(2 * wait_s, LONGEST_S)
                await asyncio.wait({stopped}, timeout=wait_s * random.uniform(0.5, 1.0))
        finally:
            self.stopping.set()
            stopped.cancel()
            self.actuators.close()
            if metrics is not None:
                await metrics.close()

    def _has_room(self) -> bool:
        """Whether what the device has to remember can be written; if not, it stays away."""
        if self.room.lacking is not None and self.room.there:
            self.done = None  # the same order may come again, and can be carried out now
        return self.room.lacking is None

    async def _attend_until(self, stopped: asyncio.Task[Any]) -> bool:
        """One stream to the edge server, until it ends, a server is revoked or the agent stops."""
        attending = asyncio.create_task(self._attend())
        watch = until_revoked(self.settings.files, self.edge, RECHECK_S)
        revoked = asyncio.create_task(watch)
        try:
            ends: set[asyncio.Task[Any]] = {attending, stopped, revoked}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if attending.done():
                return attending.result()
            if revoked.done():
                log.warning("%s: certificate was revoked", self.edge)
            return False
        except InputError:
            raise
        except (FedrtError, grpc.aio.AioRpcError, OSError) as error:
            log.info("%s: %s", self.edge.name, reason_of(error))
            return False
        finally:
            await ended(attending, revoked)

    async def _attend(self) -> bool:
        """One stream to the edge server; returns when it ends, whether it was welcome."""
        channel = open_channel(self.settings.edge, self.settings.files, self.edge)
        try:
            stream = call(channel, "Devices", "Attend")()
            welcome = asyncio.Event()
            hearing = asyncio.create_task(self._hear(stream, welcome))
            working = asyncio.create_task(self._work(stream, welcome))
            try:
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait({hearing, working}, return_when=first)
                if working.done():  # it may be that the stream has ended: then its end says why
                    await asyncio.wait({hearing}, timeout=LAST_WORDS_S)
                if hearing.done():
                    hearing.result()
                else:
                    error = working.exception()
                    log.error("carries out no more orders: %s", error and reason(error))
            except grpc.aio.AioRpcError as error:
                if error.code() in FINAL:
                    raise InputError(
                        f"{self.edge.name}: {one_line(error.details() or '')}"
                    ) from None
                log.info("%s: %s", self.edge.name, reason_of(error))
            finally:
                self.counts["connected"] = 0.0
                await ended(hearing, working)
            return welcome.is_set()
        finally:
            await channel.close()

    async def _hear(self, stream: Any, welcome: asyncio.Event) -> None:
        """Greet the edge server and take what it sends, until the stream ends."""
        greeting = pb.Greeting(party=self.party, samples=self.trainer.samples)
        await stream.write(pb.FromDevice(greeting=greeting))
        while (message := await stream.read()) is not grpc.aio.EOF:
            what = message.WhichOneof("what")
            if what == "welcome":
                why = difference(self.party, message.welcome.party, self.edge.name)
                if why is not None:
                    raise InputError(why)
                self.counts["connected"] = 1.0
                log.info("connected to %s", self.edge.name)
                welcome.set()
            elif what == "order":
                await self._take(stream, message.order)
            elif what == "receipt" and not message.receipt.accepted:
                log.warning("update not counted: %s", message.receipt.why)
        code, details = await stream.code(), await stream.details()
        if code in FINAL:
            raise InputError(f"{self.edge.name}: {one_line(details or '')}")
        log.info("%s has ended the stream: %s", self.edge.name, details or code.name)

    async def _take(self, stream: Any, order: pb.Order) -> None:
        """Take an order in, with the model that follows it, unless it is beyond the limits."""
        work = await self._gather(stream, order)
        if (why := self.limits.problem(order)) is None:
            self.newest = work
            self.wake.set()
            return
        log.warning("%s: refused: %s", words(order.key), why)
        await stream.write(pb.FromDevice(failure=pb.Failure(key=order.key, why=why)))

    async def _gather(self, stream: Any, order: pb.Order) -> OrderedWork:
        """An order with the model that follows it."""
        await in_thread(self.trainer.load)  # now the device knows how long a model is
        most, most_correction = self.limits.payloads(self.trainer.model_bytes)
        began = time.monotonic()

        async def chunk() -> Raw:
            message = await stream.read()
            if message is grpc.aio.EOF or message.WhichOneof("what") != "chunk":
                raise BrokenPayloadError("an order that ends too early")
            part: Raw = message.chunk
            return part

        model = await gathered(order.model, most, chunk)
        correction = await gathered(order.correction, most_correction, chunk)
        return OrderedWork(order, model, correction, time.monotonic() - began)

    async def _work(self, stream: Any, welcome: asyncio.Event) -> None:
        """Carry out orders, the newest first, and send what comes of them."""
        await welcome.wait()
        while True:
            await self.wake.wait()
            self.wake.clear()
            job = self.newest
            if job is None:
                continue
            if self.done is None or self.done[0] != job.name:
                # Not cut off when the stream ends: the server will ask for it again.
                training = asyncio.ensure_future(asyncio.to_thread(self._carry_out, job))
                await asyncio.shield(training)
                if self.newest is not job:
                    self.wake.set()
                    continue
            assert self.done is not None
            await self._send(stream, job, self.done[1])

    async def _send(self, stream: Any, job: OrderedWork, done: Done) -> None:
        if done.upload is None:
            failure = pb.Failure(key=job.order.key, why=done.why)
            await stream.write(pb.FromDevice(failure=failure))
            if self.room.lacking is not None:
                await stream.done_writing()
            return
        bandwidth = self.actuators.bandwidth
        self.actuators.begin_upload(job.order)
        await stream.write(pb.FromDevice(upload=done.upload))
        for payload in (done.message, done.variate):
            for chunk in chunks_of(payload, bandwidth.piece_bytes):
                await bandwidth.wait(len(chunk))
                await stream.write(raw_chunk(IN_STREAM, chunk))

    def _carry_out(self, job: OrderedWork) -> None:
        """Train as ordered; the result is kept until the next order.

        An order from before the stream was cut may still be at work: the trainer is one.
        """
        with self.one_at_a_time:
            if self.newest is not job or (self.done is not None and self.done[0] == job.name):
                return
            try:
                done = self._trained(job)
            except StoppedError:
                return
            except UnwritableError as error:
                need = sum(array.nbytes for array in self.trainer.state().values())
                self.room.note(error, self.settings.state / job.order.key.run, need)
                done = Done(None, why=str(error))
            except FedrtError as error:
                log.error("%s: %s", words(job.order.key), error)
                done = Done(None, why=str(error))
            except Exception as error:  # a model of the user's may raise anything
                log.exception("%s", words(job.order.key))
                done = Done(None, why=f"training failed: {type(error).__name__}: {error}")
            self.done = (job.name, done)

    def _trained(self, job: OrderedWork) -> Done:
        from fedrt.learning.remote import LocalOrder

        order = job.order
        trainer, memory = self.trainer, self._memory(order.key.run)
        state = memory.load(order.remember) if order.remember else None
        if order.remember and state is None:
            log.warning("has forgotten what it had yet to send; starts with nothing left over")
        trainer.restore(state or {})
        codec = order.codec if order.HasField("codec") else None
        local = LocalOrder(
            order.key.t, order.key.r, order.local_steps, codec, job.correction or None
        )
        # Coding is not held back: the cost model knows of no cycles for it.
        spent = pb.Report()
        held = self.actuators.training(order, spent)
        result = trainer.train(local, job.model, self._after_step, held)
        trainer.settle(accepted=True)
        memory.save(order.label, trainer.state())
        memory.forget_for(order.key.t, order.remember)
        variate = result.variate or b""
        report = pb.Report(
            download_s=job.download_s,
            train_s=result.train_s,
            loss_sum=result.loss_sum,
            largest=result.largest,
            update_norm=result.update_norm,
            left_norm=result.left_norm,
            joules=spent.joules,
            metered=spent.metered,
            enforce_s=spent.enforce_s,
        )
        heads = {"message": head_of(result.message), "variate": head_of(variate)}
        upload = pb.Upload(key=order.key, report=report, **heads)
        held_ms = 1e3 * spent.enforce_s
        log.info(
            "%s: trained in %.3f s, held after %.1f ms", words(order.key), result.train_s, held_ms
        )
        self.counts["orders_total"] += 1
        self.counts |= {"train_seconds": result.train_s, "global_round": float(order.key.t + 1)}
        return Done(upload, result.message, variate)

    def _after_step(self) -> None:
        """Called after every local step: hold the device to its share of the CPU, or stop."""
        self.actuators.cpu.after_step()
        if self.stopping.is_set():
            raise StoppedError("the agent stops")

    def _memory(self, run: str) -> DeviceMemory:
        """What the device remembers of a run."""
        if self.memory is None or self.run != run:
            forget_runs(self.settings.state, run)
            most = MEMORIES + SESSIONS * self.limits.edge_rounds
            self.run, self.memory = run, DeviceMemory(self.settings.state / run, most)
        return self.memory


def local_trainer(scenario: Scenario, seed: int, number: int, data: Path) -> LocalTrainer:
    """The trainer of a device; torch is loaded with its first order."""
    from fedrt.learning.remote import LocalTrainer

    return LocalTrainer.open(scenario, seed, number, data)
