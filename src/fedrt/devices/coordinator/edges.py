"""The coordinator's calls to edge servers, given again until they answer or time is up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

import grpc

from fedrt.devices.security import Files, Party, open_channel
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import MOST_MODEL, BrokenPayloadError, fetched
from fedrt.devices.wire.services import NOT_JOINED, call, reason_of
from fedrt.errors import FedrtError, InputError
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
"""Answers that trying again does not change."""


class SilentEdgeError(FedrtError):
    """An edge server has not answered in time."""


class EdgeCalls:
    """Channels to all edge servers."""

    def __init__(self, addresses: tuple[str, ...], files: Files) -> None:
        self.addresses, self.files = addresses, files
        self.channels: dict[int, tuple[Any, Any]] = {}
        self.question: Callable[[], pb.Question] | None = None
        """What an edge server is asked to join the run."""

    def _channel(self, c: int) -> Any:
        stamps, held = self.files.stamps(), self.channels.get(c)
        if held is None or held[0] != stamps:
            expect = Party("edge", f"edge-{c}")
            held = self.channels[c] = (stamps, open_channel(self.addresses[c], self.files, expect))
        return held[1]

    async def ask(self, c: int, name: str, request: Any, seconds: float) -> Any:
        """The answer of an edge server; the call is made again until there is one.

        `SilentEdgeError` if there is none in time.
        """
        end, last = time.monotonic() + seconds, "no answer"
        while (left_s := end - time.monotonic()) > 0:
            method = call(self._channel(c), "Orders", name)
            try:
                return await method(request, timeout=left_s)
            except grpc.aio.AioRpcError as error:
                last = reason_of(error)
                if error.code() in FINAL:
                    raise InputError(f"edge-{c}: {error.details()}") from None
                log.debug("edge-%d: %s", c, last)
                await self._join(c, error, end)
            await asyncio.sleep(min(AGAIN_S, max(end - time.monotonic(), 0)))
        raise SilentEdgeError(f"edge-{c}: {last}")

    async def model(self, c: int, run: str, label: str, seconds: float) -> Raw:
        """The model of an edge server in a state."""
        end = time.monotonic() + seconds
        while True:
            method = call(self._channel(c), "Orders", "Model")
            question = pb.ModelQuestion(run=run, label=label)
            try:
                left_s = max(end - time.monotonic(), 0.1)
                return await fetched(method(question, timeout=left_s), MOST_MODEL)
            except (grpc.aio.AioRpcError, BrokenPayloadError) as error:
                final = isinstance(error, grpc.aio.AioRpcError) and error.code() in FINAL
                if final or time.monotonic() >= end:
                    raise SilentEdgeError(f"edge-{c}: {reason_of(error)}") from None
                await self._join(c, error, end)
            await asyncio.sleep(AGAIN_S)

    async def _join(self, c: int, error: Exception, end: float) -> None:
        """Have an edge server that was started anew join the run again."""
        told = isinstance(error, grpc.aio.AioRpcError) and error.code() == NOT_JOINED
        if told and self.question is not None:
            ask, left_s = call(self._channel(c), "Orders", "Ask"), end - time.monotonic()
            with suppress(grpc.aio.AioRpcError):
                await ask(self.question(), timeout=max(left_s, 0.1))

    async def close(self) -> None:
        """Close all channels."""
        for _, channel in self.channels.values():
            await channel.close()


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

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()
