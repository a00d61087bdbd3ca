"""Bytes of any length as a head with length and digest, and chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from hashlib import blake2b
from typing import Any

from fedrt.devices.wire.messages_pb2 import Payload, Piece
from fedrt.errors import FedrtError

MOST_MODEL = 2**32
"""Bytes of the largest model that a party takes."""
CHUNK = 2**18
"""Bytes of a chunk: with fewer, a large model takes far longer than plain TLS would."""
MOST_MESSAGE = CHUNK + 2**16
"""Bytes of the longest message on the wire."""

NextChunk = Callable[[], Awaitable[bytes]]


class BrokenPayloadError(FedrtError):
    """What arrived is not what its head announces."""


def digest_of(payload: bytes | bytearray) -> bytes:
    """The digest by which a payload is known."""
    return blake2b(payload, digest_size=16).digest()


def head_of(payload: bytes) -> Payload:
    """What is announced of a payload before its chunks."""
    return Payload(length=len(payload), digest=digest_of(payload) if payload else b"")


def chunks_of(payload: bytes, size: int = CHUNK) -> Iterator[bytes]:
    """The payload in pieces of at most `size` bytes; none for an empty one."""
    view = memoryview(payload)
    for start in range(0, len(view), size):
        yield bytes(view[start : start + size])


async def gathered(head: Payload, most: int, next_chunk: NextChunk) -> bytes:
    """The payload that follows its head; an error if it is another one, or longer than `most`."""
    if head.length > most:
        raise BrokenPayloadError(f"a payload of {head.length} bytes: must be at most {most}")
    found: list[bytes] = []
    length, digest = 0, blake2b(digest_size=16)
    while length < head.length:
        chunk = await next_chunk()
        length += len(chunk)
        if not chunk or length > head.length:
            raise BrokenPayloadError("a payload whose chunks do not fit its announced length")
        digest.update(chunk)  # at once: the next chunk is on its way meanwhile
        found.append(chunk)
    if head.length and digest.digest() != head.digest:
        raise BrokenPayloadError("a payload with another digest than announced")
    return found[0] if len(found) == 1 else b"".join(found)


async def pieces(payload: bytes) -> AsyncIterator[Any]:
    """A payload as an answer in pieces."""
    yield Piece(head=head_of(payload))
    for chunk in chunks_of(payload):
        yield Piece(chunk=chunk)


async def fetched(answer: Any, most: int) -> bytes:
    """The payload that another party answers with."""
    source = aiter(answer)

    async def piece() -> Any:
        try:
            return await anext(source)
        except StopAsyncIteration:
            raise BrokenPayloadError("an answer that ends too early") from None

    first = await piece()
    if first.WhichOneof("what") != "head":
        raise BrokenPayloadError("an answer without a head")

    async def chunk() -> bytes:
        return bytes((await piece()).chunk)

    return await gathered(first.head, most, chunk)
