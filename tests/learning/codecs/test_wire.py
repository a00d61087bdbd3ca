"""Messages that were damaged, cut, lengthened or made up are refused by name, and nothing else."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrt.errors import MessageError
from fedrt.learning.codecs import make_format
from fedrt.learning.codecs.wire import seal
from fedrt.messages import CODECS, message_bytes

CODEC_NAMES = tuple(CODECS)

SIZE, SHARE = 300, 0.1


def whole(codec: str) -> bytes:
    numbers = np.random.default_rng(1).standard_normal(SIZE)
    return make_format(codec, SHARE).encode(torch.from_numpy(numbers))


MESSAGES = {codec: whole(codec) for codec in CODEC_NAMES}


def with_checksum(message: bytes) -> bytes:
    """The message with the checksum that its other bytes have."""
    check = zlib.crc32(message[16:], zlib.crc32(message[:12]))
    return message[:12] + struct.pack("<I", check) + message[16:]


def refused(codec: str, message: bytes, numbers: int | None = SIZE) -> str:
    with pytest.raises(MessageError) as error:
        make_format(codec, SHARE).decode(message, numbers)
    (line,) = error.value.lines
    assert line.startswith(f"message of {codec}: ")
    assert "\n" not in line
    return line


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_is_wrong_is_named(codec):
    good, size = MESSAGES[codec], message_bytes(codec, SIZE, SHARE)
    assert "has 15 bytes: must have a header of 16" in refused(codec, good[:15])
    assert f"has {size - 1} bytes: must be {size} for 300 numbers" in refused(codec, good[:-1])
    assert f"has {size + 1} bytes: must be {size} for 300 numbers" in refused(codec, good + b"x")
    assert "begins with b'PK': must begin with b'FU'" in refused(codec, b"PK" + good[2:])
    assert "has version 2: must be 1" in refused(codec, good[:2] + b"\2" + good[3:])
    other = CODEC_NAMES[(CODEC_NAMES.index(codec) + 1) % len(CODEC_NAMES)]
    assert f"is one of codec {other}: must be {codec}" in refused(codec, MESSAGES[other])
    assert "is one of codec number 77" in refused(codec, good[:3] + b"\x4d" + good[4:])
    assert "is of 300 numbers: must be 299" in refused(codec, good, SIZE - 1)
    assert "does not fit its checksum" in refused(codec, good[:-1] + bytes([good[-1] ^ 1]))
    assert "is str: must be bytes" in refused(codec, "text")
    huge = with_checksum(good[:4] + struct.pack("<Q", 2**60) + good[12:])
    assert "must be at most 4294967295" in refused(codec, huge, None)
    large = with_checksum(good[:4] + struct.pack("<Q", 2**32 - 1) + good[12:])
    assert "for 4294967295 numbers" in refused(codec, large, None)


def sealed(codec: str, *parts: np.ndarray) -> bytes:
    return seal(codec, SIZE, *(np.ascontiguousarray(part) for part in parts))


SCALES = np.full(2, 0x3F80, np.uint16)
CODES = np.zeros(150, np.uint8)
PLACES, VALUES = np.arange(30, dtype=np.uint32), np.ones(30, np.float32)


@pytest.mark.parametrize(
    ("codec", "parts", "what"),
    [
        ("int4", (SCALES | 0x8000, CODES), "scale"),
        ("int4", (np.array([0x7F80, 0], np.uint16), CODES), "scale"),  # infinite
        ("int4", (np.array([0, 0x7FC0], np.uint16), CODES), "scale"),  # not a number
        ("int4", (np.array([1, 0], np.uint16), CODES), "scale"),  # below the least normal number
        ("int4", (np.array([0x7F00, 0], np.uint16), CODES), "scale"),  # seven of it are too much
        ("int4", (SCALES, CODES + 15), "code that stands for no level"),
        ("int3", (SCALES, np.append(np.zeros(112, np.uint8), np.uint8(16))), "code"),  # left over
        ("int8", (SCALES, np.full(300, 255, np.uint8)), "code that stands for no level"),
        ("float32", (np.full(300, np.nan, np.float32),), "not finite"),
        ("float16", (np.full(300, np.inf, np.float16),), "not finite"),
        ("top-k", (PLACES, VALUES * np.float32(np.inf)), "not finite"),
        ("top-k", (PLACES[::-1], VALUES), "places that do not rise"),
        ("top-k", (PLACES // 2, VALUES), "places that do not rise"),
        ("top-k", (PLACES + 271, VALUES), "place 300: must be below 300"),
    ],
)
def test_bytes_that_no_sender_writes_are_refused_though_their_checksum_fits(codec, parts, what):
    assert what in refused(codec, sealed(codec, *parts))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A message with some bits flipped, bytes cut, put in or exchanged, or no message at all."""
    codec = draw(st.sampled_from(CODEC_NAMES))
    message = bytearray(MESSAGES[codec])
    kind = draw(st.sampled_from(["flip", "cut", "longer", "other", "noise", "repaired"]))
    if kind in ("flip", "repaired"):
        for _ in range(draw(st.integers(1, 4))):
            message[draw(st.integers(0, len(message) - 1))] ^= 1 << draw(st.integers(0, 7))
    if kind == "cut":
        del message[draw(st.integers(0, len(message) - 1)) :]
    if kind == "longer":
        message += draw(st.binary(min_size=1, max_size=40))
    if kind == "other":
        message = bytearray(MESSAGES[draw(st.sampled_from(CODEC_NAMES))])
    if kind == "noise":
        message = bytearray(draw(st.binary(max_size=600)))
    found = bytes(message)
    return codec, with_checksum(found) if kind == "repaired" else found


def never_breaks(case: tuple[str, bytes]) -> None:
    """Refused in one line, or decoded to as many finite numbers as were asked for."""
    codec, message = case
    try:
        found = make_format(codec, SHARE).decode(message, SIZE)
    except MessageError as error:
        (line,) = error.lines
        assert line.startswith(f"message of {codec}: ")
        return
    assert found.shape == (SIZE,)
    assert bool(found.isfinite().all())
    # Only what a sender could have written: it has a checksum that fits.
    assert message == with_checksum(message)


@settings(max_examples=400)
@given(damaged())
def test_no_damaged_message_does_harm(case):
    never_breaks(case)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=10_000)
@given(damaged())
def test_no_damaged_message_does_harm_in_ten_thousand(case):
    never_breaks(case)
