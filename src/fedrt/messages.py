"""The messages that carry updates: the names, lengths and distortions of the shipped codecs.

A message is as long as the number of numbers in it says, whatever they are: planning and charging
need no message to be made. docs/codecs.md has the formats byte by byte.
"""

from __future__ import annotations

import math
from statistics import NormalDist

Raw = bytes | memoryview
"""The bytes of a message or a model, or a view of them: large ones are not copied."""
CODEC_NAMES = (
    "float32",
    "float16",
    "int8",
    "int6",
    "int5",
    "int4",
    "int3",
    "int2",
    "top-k",
)
"""The shipped codecs; a message has the place of its codec in here."""
UNCOMPRESSED = "none"
"""A message of the numbers alone, as float32 without a header."""
UPLOADS = (*CODEC_NAMES, UNCOMPRESSED)
"""How a plan may have an upload sent."""
HEADER_BYTES = 16
BLOCK = 256
"""The numbers of an update that share a scale."""
SCALE_BYTES = 2
BITS = {"int8": 8, "int6": 6, "int5": 5, "int4": 4, "int3": 3, "int2": 2}
"""The bits of a number in the codecs that round to a few levels."""
TOP_K = 0.01
"""The share of an update's numbers that `top-k` sends where nothing else is given."""
LADDER = ("int2", "int3", "int4", "int5", "int6", "int8", "float16")
"""The codecs in the order in which a device whose messages leave too much out is stepped up."""
PLACE_BYTES, VALUE_BYTES = 4, 4
"""Of a number that `top-k` sends: its place and its value, a float32."""

DISTORTION = {
    "float32": 0.0,
    "float16": 4.31e-8,
    "int8": 4.89e-5,
    "int6": 8.17e-4,
    "int5": 3.49e-3,
    "int4": 1.60e-2,
    "int3": 8.73e-2,
    "int2": 0.653,
}
"""For normal numbers; tests/test_messages.py computes them again."""


def levels(codec: str) -> int:
    """The number of levels on each side of zero of a codec that rounds: 7 of `int4`."""
    return int(2 ** (BITS[codec] - 1) - 1)


def numbers_sent(numbers: int, share: float | None = None) -> int:
    """How many of an update's numbers `top-k` sends: the share, rounded, and at least one."""
    return min(numbers, max(1, round((TOP_K if share is None else share) * numbers)))


def message_bytes(codec: str, numbers: int, share: float | None = None) -> int:
    """The length of the message of an update with that many numbers, header included.

    `share` is that of `top-k`.
    """
    if codec in BITS:
        scales = SCALE_BYTES * -(-numbers // BLOCK)
        return HEADER_BYTES + scales + -(-BITS[codec] * numbers // 8)
    if codec == UNCOMPRESSED:
        return VALUE_BYTES * numbers
    if codec == "top-k":
        return HEADER_BYTES + (PLACE_BYTES + VALUE_BYTES) * numbers_sent(numbers, share)
    return HEADER_BYTES + {"float32": 4, "float16": 2}[codec] * numbers


def distortion(codec: str, share: float | None = None) -> float:
    """The expected squared error of a message over the squared norm of what it codes.

    For independent normal numbers. `top-k` leaves out all those below the quantile x at which the
    share is left: 1 - share - 2 x phi(x), where phi is the normal density.
    """
    if codec == UNCOMPRESSED:
        return 0.0
    if codec != "top-k":
        return DISTORTION[codec]
    normal, kept = NormalDist(), TOP_K if share is None else share
    if kept >= 1:
        return 0.0
    x = normal.inv_cdf(1 - kept / 2)
    return 1 - kept - 2 * x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def left_limit(codec: str) -> float:
    """What a device may have left to send, over the norm of its update, before it is stepped up.

    Where a message leaves the share d of a squared norm, at most sqrt(d) / (1 - sqrt(d)) of the
    greatest update is left under error feedback: |e'| <= sqrt(d) (|u| + |e|). Updates have more
    distortion than normal numbers, though less than a whole update left over does no harm: the
    limit is at least 1.
    """
    root = math.sqrt(distortion(codec))
    return max(1.0, root / (1 - root))
