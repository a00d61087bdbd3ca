"""The coordinator's calls to edge servers, given again until they answer or time is up."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, TypeVar

import grpc

from fedrt.devices.coordinator.answers import AnswerRules
from fedrt.devices.security import Channels, Files, Party, RevokedServerError, ended
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import BrokenPayloadError, chunks_of, fetched, head_of
from fedrt.devices.wire.raw import IN_PIECE, raw_chunk
from fedrt.devices.wire.services import (
    CANNOT_WRITE,
    LED,
    LOST_STATE,
    NOT_JOINED,
    SESSION,
    WRONG_PEER,
    call,
    reason_of,
)
from fedrt.errors import FedrtError, InputError, one_line
from fedrt.messages import Raw

log = logging.getLogger(__name__)
T = TypeVar("T")

AGAIN_S = 0.2
"""Between two tries."""
FINAL = {
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INVALID_ARGUMENT,
}
"""Answers that trying again does not change: settings, certificates or versions are wrong."""
OF_ORDERS = {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT}
"""Where an order is refused so, a server fails that has agreed to the run's settings before."""
LED_AGAIN_S, TAKEOVER_S = 1.0, 60.0
"""Between two tries to lead an edge server that another coordinator leads, and how long to try: by
then a server has noticed that a coordinator's machine is gone."""


class SilentEdgeError(FedrtError):
    """An edge server has not answered in time."""


class FailedOrderError(SilentEdgeError):
    """An edge server could not carry out an order, and would not if it were given again."""


class LostEdgeStateError(FailedOrderError):
    """An edge server does not have the state that an order starts from."""


FAILED = {
    WRONG_PEER: FailedOrderError,
    CANNOT_WRITE: FailedOrderError,
    LOST_STATE: LostEdgeStateError,
}
"""Answers of a server that fails by itself: others go on without it."""


class EdgeCalls:
    """Channels to all edge servers."""

    def __init__(self, addresses: tuple[str, ...], files: Files, rules: AnswerRules) -> None:
        self.addresses, self.channels, self.rules = addresses, Channels(files), rules
        self.question: Callable[[], pb.Question] | None = None
        """What an edge server is asked to join the run."""
        self.session = secrets.token_hex(8)
        """The name of this process: an edge server that it leads obeys no other one."""
        self._leading: dict[int, tuple[Any, asyncio.Task[None]]] = {}
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._led_since: dict[int, float] = {}
        """When servers that another coordinator leads were first found to be."""

    def _method(self, c: int, name: str) -> Any:
        channel = self.channels.to(Party("edge", f"edge-{c}"), self.addresses[c])
        return partial(call(channel, "Orders", name), metadata=((SESSION, self.session),))

    async def _lead(self, c: int, seconds: float) -> None:
        """Lead an edge server, by a call that is open until this process closes it or ends."""
        async with self._locks[c]:
            if c in self._leading and not self._leading[c][1].done():
                return
            question = pb.Question() if self.question is None else self.question()
            stream = self._method(c, "Lead")(question)
            try:
                async with asyncio.timeout(seconds):
                    await stream.read()
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:  # it is an older one
                    raise
            except TimeoutError:
                raise SilentEdgeError(f"edge-{c}: no answer") from None
            self._leading[c] = stream, asyncio.create_task(_until_ended(stream))
            self._led_since.pop(c, None)

    async def _refused(self, c: int, error: Exception) -> None:
        """Wait if another coordinator leads an edge server; an error if it has for long."""
        if code_of(error) != LED:
            return
        now, line = time.monotonic(), reason_of(error).partition(": ")[2]
        if c not in self._led_since:
            log.warning("%s; trying for %.0f s", line, TAKEOVER_S)
        if now - self._led_since.setdefault(c, now) > TAKEOVER_S:
            raise InputError(line)
        await asyncio.sleep(LED_AGAIN_S)

    async def _guarded(self, c: int, work: Coroutine[Any, Any, T]) -> T:
        return await self.channels.guarded(Party("edge", f"edge-{c}"), work)

    async def ask(self, c: int, name: str, request: Any, seconds: float) -> Any:
        """The answer of an edge server; the call is made again until there is one.

        `SilentEdgeError` if there is none in time, or one that cannot be.
        """
        end, last = time.monotonic() + seconds, "no answer"
        while (left_s := end - time.monotonic()) > 0:
            try:
                await self._guarded(c, self._lead(c, left_s))
                method = self._method(c, name)
                answer = await self._guarded(c, answered(method(request, timeout=left_s)))
                if (why := self.rules.problem(answer, request, c)) is not None:
                    raise FailedOrderError(f"edge-{c}: an answer that cannot be: {why}")
                return answer
            except (grpc.aio.AioRpcError, RevokedServerError) as error:
                last = reason_of(error)
                refuse_final(c, error, name)
                log.debug("edge-%d: %s", c, last)
                await self._refused(c, error)
                await self._join(c, error, end)
            await asyncio.sleep(min(AGAIN_S, max(end - time.monotonic(), 0)))
        raise SilentEdgeError(f"edge-{c}: {last}")

    async def model(self, c: int, run: str, label: str, most: int, seconds: float) -> Raw:
        """The model of an edge server in a state, of at most so many bytes."""
        end = time.monotonic() + seconds
        while True:
            question = pb.ModelQuestion(run=run, label=label)
            try:
                left_s = max(end - time.monotonic(), 0.1)
                await self._guarded(c, self._lead(c, left_s))
                answer = self._method(c, "Model")(question, timeout=left_s)
                return await self._guarded(c, fetched(answer, most))
            except (grpc.aio.AioRpcError, BrokenPayloadError, RevokedServerError) as error:
                wrong = isinstance(error, BrokenPayloadError)
                final = code_of(error) in FINAL or code_of(error) in FAILED
                if wrong or final or time.monotonic() >= end:
                    raise SilentEdgeError(f"edge-{c}: {reason_of(error)}") from None
                await self._refused(c, error)
                await self._join(c, error, end)
            await asyncio.sleep(AGAIN_S)

    async def restore(self, c: int, run: str, label: str, model: Raw, seconds: float) -> None:
        """Send an edge server its model back, which becomes the state of the given name."""
        head = pb.RestoreHead(run=run, label=label, model=head_of(model))

        async def messages() -> AsyncIterator[Any]:
            yield pb.Restore(head=head)
            for chunk in chunks_of(model):
                yield raw_chunk(IN_PIECE, chunk)

        try:
            await self._guarded(
                c, answered(self._method(c, "Restore")(messages(), timeout=seconds))
            )
        except (grpc.aio.AioRpcError, RevokedServerError) as error:
            raise SilentEdgeError(f"edge-{c}: {reason_of(error)}") from None

    async def _join(self, c: int, error: Exception, end: float) -> None:
        """Have an edge server that was started anew join the run again."""
        if code_of(error) == NOT_JOINED and self.question is not None:
            ask, left_s = self._method(c, "Ask"), end - time.monotonic()
            with suppress(grpc.aio.AioRpcError):
                await ask(self.question(), timeout=max(left_s, 0.1))

    async def close(self) -> None:
        """Close all channels."""
        for stream, reading in self._leading.values():
            stream.cancel()
            await asyncio.wait({reading})  # not cancelled: it would outlive its event loop
        await self.channels.close()


async def _until_ended(stream: Any) -> None:
    with suppress(grpc.aio.AioRpcError):
        while await stream.read() is not grpc.aio.EOF:
            pass


async def answered(call: Any) -> Any:
    """The answer of a call, which is none of asyncio's coroutines."""
    return await call


def refuse_final(c: int, error: Exception, name: str) -> None:
    """Raise an error if the answer of an edge server is the same however often it is asked."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return
    line, code = f"edge-{c}: {one_line(error.details() or '')}", error.code()
    if code in FAILED:
        raise FAILED[code](line) from None
    if name != "Ask" and code in OF_ORDERS:
        raise FailedOrderError(line) from None
    if code in FINAL:
        raise InputError(line) from None


def code_of(error: Exception) -> grpc.StatusCode | None:
    """The status of a call that failed; None if it did for another reason."""
    return error.code() if isinstance(error, grpc.aio.AioRpcError) else None


class Portal:
    """A thread with an event loop, for code that is not asynchronous itself."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; Ctrl-C cancels it."""
        return self.result(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run while this thread goes on."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def result(self, future: Future[T]) -> T:
        """The result of what was started; Ctrl-C cancels it."""
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @staticmethod
    async def _end_all() -> None:
        await ended(*asyncio.all_tasks() - {asyncio.current_task()})

    def close(self) -> None:
        """End the thread, and before it what an interrupted call has left."""
        self.call(self._end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()
