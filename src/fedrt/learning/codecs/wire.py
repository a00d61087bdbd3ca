"""The header of a message: what it is, how many numbers it carries, and a checksum.

Sixteen bytes, little-endian: the letters `FU`, the version of the format, the number of the codec
(`messages.CodecEntry`), the number of numbers (8 bytes), and the CRC-32 of all other bytes.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import MessageError
from fedrt.messages import CODECS, HEADER_BYTES, message_bytes

MAGIC = b"FU"
VERSION = 1
_FRONT = struct.Struct("<2sBBQ")
_CHECK = struct.Struct("<I")
MOST_NUMBERS = 2**32 - 1
"""The greatest number of numbers in a message: places have 32 bits."""


def seal(codec: str, numbers: int, *parts: NDArray[Any]) -> bytes:
    """The message of a codec whose bytes after the header are those of the arrays."""
    front = _FRONT.pack(MAGIC, VERSION, CODECS[codec].number, numbers)
    check = zlib.crc32(front)
    views = [memoryview(part.reshape(-1).view(np.uint8)) for part in parts]  # type: ignore[arg-type]
    for view in views:
        check = zlib.crc32(view, check)
    return b"".join((front, _CHECK.pack(check), *views))


def unseal(
    message: bytes, codec: str, numbers: int | None = None, share: float | None = None
) -> tuple[int, memoryview]:
    """The number of numbers in a message and the bytes after its header.

    An error names what is wrong if it is not a whole message of this codec, or not with the given
    number of numbers. Nothing is set aside for what a header claims before its length fits.
    """
    if not isinstance(message, bytes | bytearray | memoryview):
        raise MessageError(f"message of {codec}: is {type(message).__name__}: must be bytes")
    view = memoryview(message).cast("B")
    if len(view) < HEADER_BYTES:
        raise MessageError(
            f"message of {codec}: has {len(view)} bytes: must have a header of {HEADER_BYTES}"
        )
    magic, version, number, count = _FRONT.unpack_from(view)
    if magic != MAGIC:
        raise MessageError(f"message of {codec}: begins with {magic!r}: must begin with {MAGIC!r}")
    if version != VERSION:
        raise MessageError(f"message of {codec}: has version {version}: must be {VERSION}")
    if number != CODECS[codec].number:
        names = {facts.number: name for name, facts in CODECS.items()}
        known = names.get(number, f"number {number}")
        raise MessageError(f"message of {codec}: is one of codec {known}: must be {codec}")
    if count > MOST_NUMBERS or (numbers is not None and count != numbers):
        rule = f"{numbers}" if numbers is not None else f"at most {MOST_NUMBERS}"
        raise MessageError(f"message of {codec}: is of {count} numbers: must be {rule}")
    length = message_bytes(codec, count, share)
    if len(view) != length:
        raise MessageError(
            f"message of {codec}: has {len(view)} bytes: must be {length} for {count} numbers"
        )
    body = view[HEADER_BYTES:]
    (given,) = _CHECK.unpack_from(view, _FRONT.size)
    if zlib.crc32(body, zlib.crc32(view[: _FRONT.size])) != given:
        raise MessageError(f"message of {codec}: does not fit its checksum: it was damaged")
    return count, body


def refuse_body(codec: str, what: str) -> MessageError:
    """The error about bytes that no sender of this codec writes."""
    return MessageError(f"message of {codec}: {what}")
