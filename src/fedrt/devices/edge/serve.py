"""`fedrt edge`: the services of an edge server, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from fedrt.devices.actuators.choices import CLEANERS, open_uplinks
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.common.metrics import Metrics
from fedrt.devices.common.settings import EdgeSettings
from fedrt.devices.common.threads import in_thread
from fedrt.devices.edge.links import LostLinkError, PeerLinks, WrongMessageError
from fedrt.devices.edge.recovery import restored
from fedrt.devices.edge.seats import GREETING_S, GoneError, Seat
from fedrt.devices.edge.server import EdgeNode
from fedrt.devices.edge.states import LostStateError, OtherRunError
from fedrt.devices.security import Access, Gate, Limits, caller, ended, server_credentials
from fedrt.devices.security.gate import UnreadableMessageError
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import MOST_MESSAGE, BrokenPayloadError, gathered, pieces
from fedrt.devices.wire.party import difference, with_model
from fedrt.devices.wire.rules import MOST_SAMPLES
from fedrt.devices.wire.services import (
    CANNOT_WRITE,
    LED,
    LOST_STATE,
    NOT_JOINED,
    SESSION,
    WRONG_PEER,
    handlers,
)
from fedrt.errors import FedrtError
from fedrt.learning.remote.process import LostModelError
from fedrt.messages import Raw
from fedrt.scenario import Scenario
from fedrt.system.files import UnwritableError, private_files
from fedrt.world.fleet import draw_fleet

log = logging.getLogger(__name__)

STOP_S = 5.0
"""Calls that are under way get this long when the server stops."""
CHECK_S = 2.0
"""How often a stream is looked at whose device may have connected again."""
LIMITS = Limits(message_bytes=MOST_MESSAGE, calls_per_s=200.0, burst=400)
"""Peers ask for every step of a gossip."""
STEP_S = 600.0
"""The longest that a peer waits for a gossip step here, before it asks again."""


@dataclass(frozen=True, eq=False)
class Leader:
    """The coordinator's process that leads an edge server, for as long as its call is open."""

    session: str
    peer: str
    """Its address."""


class EdgeServices:
    """The handlers of an edge server's calls: who calls, and what for."""

    def __init__(
        self,
        server: EdgeNode,
        scenario: Scenario,
        seed: int,
        stop: asyncio.Event,
        coordinator: str = "coordinator",
    ) -> None:
        self.server, self.stop, self.coordinator = server, stop, coordinator
        self.leader: Leader | None = None
        self._refused = ""
        """The last session that was refused, of which a line was logged."""
        self.party = server.party
        fleet = draw_fleet(scenario, seed)
        mine = fleet.edge_of_device == server.number
        self.samples: dict[tuple[str, int], int] = {}
        """By run and device, the number of samples with which it has joined."""
        self.roster = {f"device-{n}": int(n) for n in mine.nonzero()[0]}
        self.edges = {f"edge-{c}": c for c in range(fleet.num_edges) if c != server.number}

    def rules(self) -> dict[str, Access]:
        """Who may call which service."""
        return {
            "fedrt.v1.Devices": Access("device", frozenset(self.roster)),
            "fedrt.v1.Peers": Access("edge", frozenset(self.edges)),
            "fedrt.v1.Orders": Access("coordinator", frozenset({self.coordinator})),
        }

    def all(self) -> list[Any]:
        """The handlers of all three services."""
        orders = {
            name: self._ordered(method)
            for name, method in (
                ("Ask", self.server.ask),
                ("Train", self.server.train),
                ("Mix", self.server.mix),
                ("Measure", self.server.measure),
            )
        }
        orders |= {"Model": self.model, "Restore": self.restore, "Lead": self.lead}
        return [
            handlers("Devices", {"Attend": self.attend}),
            handlers("Peers", {"Fetch": self.fetch}),
            handlers("Orders", orders),
        ]

    def _ordered(self, method: Any) -> Any:
        """A call that the coordinator alone may make."""

        async def handle(request: Any, context: Any) -> Any:
            await self._refuse_second(context)
            try:
                return await method(request)
            except (FedrtError, OSError) as error:
                await self._refuse(error, context)

        return handle

    async def lead(self, _question: pb.Question, context: Any) -> AsyncIterator[pb.Nothing]:
        """Let a coordinator lead this server: until the call ends, no other one is obeyed."""
        await self._refuse_second(context)
        leader = self.leader = Leader(_session_of(context), context.peer())
        try:
            yield pb.Nothing()
            await self.stop.wait()
        finally:
            if self.leader is leader:
                self.leader = None

    async def _refuse_second(self, context: Any) -> None:
        """End a call of a coordinator's process while another one leads this server."""
        session, leader = _session_of(context), self.leader
        if leader is None or leader.session == session:
            return
        where = f"edge-{self.server.number} is led by another coordinator, from {leader.peer}"
        if session != self._refused:
            self._refused = session
            log.warning("refused a coordinator, from %s: %s", context.peer(), where)
        await context.abort(LED, f"{where}: stop one of them")

    async def _refuse(self, error: FedrtError | OSError, context: Any) -> None:
        """End a call with an error, by which the caller sees what to do."""
        if isinstance(error, OSError):  # as where its folder is gone
            error = UnwritableError(f"edge {self.server.number}: {error}")
        if isinstance(error, UnwritableError):
            self.server.cannot_write(error)
        await context.abort(code_of(error), str(error))

    async def model(self, question: pb.ModelQuestion, context: Any) -> AsyncIterator[pb.Piece]:
        """The model in a state, for the coordinator."""
        await self._refuse_second(context)
        async for piece in self._model(question.run, question.label, context):
            yield piece

    async def restore(self, requests: AsyncIterator[Any], context: Any) -> pb.Nothing:
        """Take a model back from the coordinator."""
        await self._refuse_second(context)
        source = aiter(requests)

        async def chunk() -> Raw:
            found = await anext(source, None)
            if found is None or found.WhichOneof("what") != "chunk":
                raise BrokenPayloadError("a model that ends too early")
            part: Raw = found.chunk
            return part

        try:
            first = await anext(source, None)
            if first is None or first.WhichOneof("what") != "head":
                raise BrokenPayloadError("a model without a head")
            self.server.states_of(first.head.run, first.head.label)
            assert self.server.model is not None
            model = await gathered(first.head.model, self.server.model.model_bytes, chunk)
            await restored(self.server, first.head, model)
        except (FedrtError, OSError) as error:
            await self._refuse(error, context)
        return pb.Nothing()

    async def fetch(self, asked: pb.Fetch, context: Any) -> AsyncIterator[pb.Piece]:
        """A model or a gossip step, for another edge server."""
        if not asked.HasField("step"):
            async for piece in self._model(asked.run, asked.label, context):
                yield piece
            return
        message = await self._step(asked, self.edges[caller().name], context)
        async for piece in pieces(message):
            yield piece

    async def _model(self, run: str, label: str, context: Any) -> AsyncIterator[pb.Piece]:
        try:
            found = await self.server.model_at(run, label)
        except FedrtError as error:
            await self._refuse(error, context)
            return
        async for piece in pieces(found):
            yield piece

    async def _step(self, asked: pb.Fetch, neighbour: int, context: Any) -> bytes:
        """What a neighbour gets in a gossip step, as soon as there is something."""
        clock = asyncio.get_running_loop()
        end = clock.time() + STEP_S
        links = self.server.links
        assert links is not None
        while clock.time() < end:
            try:
                states = self.server.states_of(asked.run, asked.label)
                found = states.step(asked.label, asked.step, neighbour)
            except FedrtError:
                found = None  # this server has not heard of the gossip yet
            if found is not None:
                return found
            await links.made.wait(0.5)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the gossip step is not there yet")
        raise AssertionError

    async def attend(self, _requests: Any, context: Any) -> None:
        """A device's stream, for as long as it stays."""
        name = caller().name
        number = self.roster[name]
        seat = Seat(number, context, 0)
        try:
            greeting = await self._greeting(seat)
            why = difference(self.party, greeting.party, "the device")
            model = self.server.model
            if why is None and model is not None and greeting.party.model:
                ours = with_model(self.party, model.model_digest)
                why = difference(ours, greeting.party, "the device")
            if why is None and not 0 < greeting.samples <= MOST_SAMPLES:
                why = f"the device has {greeting.samples} samples: must be 1 to {MOST_SAMPLES}"
            first = self.samples.get((self.server.run, number), greeting.samples)
            if why is None and greeting.samples != first:
                why = f"the device has {greeting.samples} samples: it joined with {first}"
            if why is not None:
                log.warning("%s: %s", name, why)
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
            if self.server.run:  # before a run nothing is fixed
                self.samples[self.server.run, number] = first
            seat.samples = greeting.samples
            await context.write(pb.ToDevice(welcome=pb.Welcome(party=self.party)))
            await self._seated(seat, name)
        except (GoneError, TimeoutError) as error:
            log.info("%s: %s", name, error or "did not say who it is")
            await seat.drain()
        except UnreadableMessageError:
            await seat.drain()
            raise
        except BrokenPayloadError as error:
            log.warning("%s: %s", name, error)
            await seat.drain()
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            if self.server.seats.get(number) is seat:
                del self.server.seats[number]

    async def _greeting(self, seat: Seat) -> pb.Greeting:
        first = await seat.read(GREETING_S)
        if first.WhichOneof("what") != "greeting":
            raise GoneError("its first message is no greeting")
        return first.greeting

    async def _seated(self, seat: Seat, name: str) -> None:
        """Hear a device, until it goes or connects again."""
        seats = self.server.seats
        seats[seat.number] = seat
        log.info("%s is connected", name)
        self.server.call(seat)
        hearing = asyncio.create_task(self.server.attend(seat))
        stopped = asyncio.create_task(self.stop.wait())
        try:
            while not hearing.done():
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait({hearing, stopped}, timeout=CHECK_S, return_when=first)
                if stopped.done():
                    raise GoneError("the edge server stops")
                if seats.get(seat.number) is not seat:
                    raise GoneError("has connected again")
            await hearing
        finally:
            await ended(hearing, stopped)


def _session_of(context: Any) -> str:
    """The process that a coordinator's call is from; empty where it does not say."""
    return str(dict(context.invocation_metadata() or ()).get(SESSION, ""))


def code_of(error: FedrtError) -> grpc.StatusCode:
    """The status by which a caller sees whether to try again, to join again, or neither."""
    if isinstance(error, LostLinkError | LostModelError):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, OtherRunError):
        return NOT_JOINED
    if isinstance(error, WrongMessageError):
        return WRONG_PEER
    if isinstance(error, LostStateError):
        return LOST_STATE
    if isinstance(error, UnwritableError):
        return CANNOT_WRITE
    return grpc.StatusCode.FAILED_PRECONDITION


async def serve(
    settings: EdgeSettings, stop: asyncio.Event, ready: Callable[[int], None] | None = None
) -> None:
    """Serve until told to stop; `ready` is told the port."""
    with private_files():
        await _serve(settings, stop, ready)


async def _serve(
    settings: EdgeSettings, stop: asyncio.Event, ready: Callable[[int], None] | None
) -> None:
    scenario, seed = settings.scenario, settings.seed
    server = EdgeNode(scenario, seed, settings.number, settings.state)
    server.keep_updates = settings.keep_updates
    server.links = PeerLinks(settings.files)
    services = EdgeServices(server, scenario, seed, stop, settings.coordinator)
    limits = LIMITS.for_this_process()
    gate = Gate(settings.files, services.rules(), limits)
    grpc_server = grpc.aio.server(interceptors=[gate.interceptor], options=limits.server_options())
    grpc_server.add_generic_rpc_handlers(services.all())
    try:
        port = grpc_server.add_secure_port(settings.listen, server_credentials(settings.files))
    except RuntimeError:
        raise FedrtError(f"{settings.listen}: cannot be listened on; is it in use?") from None
    leftovers = Leftovers(settings.state)
    await in_thread(leftovers.undo, CLEANERS)
    server.uplinks = await in_thread(open_uplinks, settings, port, leftovers)
    metrics = await Metrics.maybe(settings.metrics, settings.name, server.numbers)
    await grpc_server.start()
    log.info("edge-%d listens on %s", settings.number, settings.listen)
    if ready is not None:
        ready(port)
    try:
        await stop.wait()
    finally:
        if metrics is not None:
            await metrics.close()
        await grpc_server.stop(STOP_S)
        await server.links.close()
        await server.close()
        await in_thread(server.uplinks.undo)
        log.info("edge-%d has stopped", settings.number)
