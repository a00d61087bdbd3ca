"""Bytes of any length as a head with length and digest, and chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from fedrt.devices.wire.messages_pb2 import Payload, Piece
from fedrt.devices.wire.raw import IN_PIECE, raw_chunk
from fedrt.errors import FedrtError
from fedrt.messages import Raw

SPARE = 2**16
"""Bytes by which a payload may be longer than its model, or than two of them where it is coded: no
codec's is."""
CHUNK = 2**20
"""Bytes of the longest chunk: with shorter ones, a large model takes longer."""
LEAST_CHUNK = 2**16
CHUNKS = 4
"""So many chunks has a small payload, about: the first are digested while the last come."""
IN_THREAD = 2**18
"""From so many bytes on, a chunk is digested in a thread of its own."""
MOST_MESSAGE = CHUNK + 2**16
"""Bytes of the longest message on the wire."""

NextChunk = Callable[[], Awaitable[Raw]]


class BrokenPayloadError(FedrtError):
    """What arrived is not what its head announces."""


def digest_of(payload: Raw) -> bytes:
    """The digest by which a payload is known."""
    return sha256(payload).digest()


def head_of(payload: Raw) -> Payload:
    """What is announced of a payload before its chunks."""
    return Payload(length=len(payload), digest=digest_of(payload) if payload else b"")


def chunks_of(payload: Raw, most: int = CHUNK) -> Iterator[memoryview]:
    """The payload in pieces of at most `most` bytes, not copied; none for an empty one."""
    view = memoryview(payload)
    size = min(max(len(view) // CHUNKS, LEAST_CHUNK), most)
    for start in range(0, len(view), size):
        yield view[start : start + size]


async def digested(
    head: Payload, most: int, next_chunk: NextChunk, take: Callable[[Raw], None]
) -> None:
    """Hand out the chunks of the payload that follows its head, one after the other.

    An error, at the end at the latest, if it is another one than announced, or longer than `most`.
    A long chunk is taken and digested by a thread while the next one is on its way.
    """
    if head.length > most:
        raise BrokenPayloadError(f"a payload of {head.length} bytes: must be at most {most}")
    length, digest = 0, sha256()

    def work(chunk: Raw) -> None:
        take(chunk)
        digest.update(chunk)

    loop, working = asyncio.get_running_loop(), None
    while length < head.length:
        chunk = await next_chunk()
        length += len(chunk)
        if not chunk or length > head.length:
            raise BrokenPayloadError("a payload whose chunks do not fit its announced length")
        if working is not None:
            await working
            working = None
        if len(chunk) < IN_THREAD:
            work(chunk)
        else:
            working = loop.run_in_executor(None, work, chunk)
    if working is not None:
        await working
    if head.length and digest.digest() != head.digest:
        raise BrokenPayloadError("a payload with another digest than announced")


async def gathered(head: Payload, most: int, next_chunk: NextChunk) -> memoryview:
    """The payload that follows its head; an error if it is another one, or longer than `most`."""
    # Memory that nobody has written to yet takes none; numpy asks for large pages, which cost less.
    whole = np.empty(min(head.length, most), dtype=np.uint8).data
    have = 0

    def take(chunk: Raw) -> None:
        nonlocal have
        whole[have : have + len(chunk)] = chunk
        have += len(chunk)

    await digested(head, most, next_chunk, take)
    return whole.toreadonly()


async def pieces(payload: Raw) -> AsyncIterator[Any]:
    """A payload as an answer in pieces."""
    yield Piece(head=head_of(payload))
    for chunk in chunks_of(payload):
        yield raw_chunk(IN_PIECE, chunk)


async def fetched(answer: Any, most: int) -> memoryview:
    """The payload that another party answers with; the call has ended when this returns."""
    source = aiter(answer)

    async def piece() -> Any:
        try:
            return await anext(source)
        except StopAsyncIteration:
            raise BrokenPayloadError("an answer that ends too early") from None

    async def chunk() -> Raw:
        found: Raw = (await piece()).chunk
        return found

    try:
        first = await piece()
        if first.WhichOneof("what") != "head":
            raise BrokenPayloadError("an answer without a head")
        whole = await gathered(first.head, most, chunk)
        if await anext(source, None) is not None:
            raise BrokenPayloadError("an answer that goes on after its payload")
        return whole
    finally:
        await source.aclose()
        answer.cancel()
