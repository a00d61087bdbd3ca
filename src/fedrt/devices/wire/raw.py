"""Messages that are nothing but a chunk, written and read without protobuf's copies of it.

What is on the wire is what protobuf writes: the number of the field, the length, the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrt.messages import Raw

IN_STREAM = 3
"""The number of `chunk` in FromDevice and ToDevice."""
IN_PIECE = 2
"""The number of `chunk` in Piece."""
BYTES = 2
"""Protobuf's kind of a field that has a length."""


class Chunk:
    """A message that is one chunk; `chunk` lies in the bytes that came."""

    __slots__ = ("chunk",)

    def __init__(self, chunk: memoryview) -> None:
        self.chunk = chunk

    def WhichOneof(self, _group: str) -> str:  # noqa: N802 - as messages of protobuf have it
        """Which field there is, as messages of protobuf say it."""
        return "chunk"


def raw_chunk(field: int, chunk: Raw) -> bytes:
    """A message with nothing but a chunk in the given field."""
    length, head = len(chunk), bytearray([field << 3 | BYTES])
    while length >= 128:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return b"".join((head, chunk))


def writer(kind: Any) -> Callable[[Any], bytes]:
    """What makes bytes of a message, or of a chunk that is bytes already."""
    write = kind.SerializeToString

    def written(message: Any) -> bytes:
        return message if type(message) is bytes else write(message)

    return written


def reader(kind: Any, field: int) -> Callable[[bytes], Any]:
    """What makes a message of bytes; a chunk and nothing else in it is not copied."""
    tag, read = field << 3 | BYTES, kind.FromString

    def message(text: bytes) -> Any:
        chunk = _only_chunk(text, tag)
        return read(text) if chunk is None else Chunk(chunk)

    return message


def _only_chunk(text: bytes, tag: int) -> memoryview | None:
    """The chunk in a message that has nothing else; None for protobuf to read it."""
    if not text or text[0] != tag:
        return None
    length = 0
    for place in range(1, min(len(text), 6)):
        length |= (text[place] & 127) << 7 * (place - 1)
        if text[place] < 128:
            start = place + 1
            return memoryview(text)[start:] if len(text) - start == length else None
    return None
