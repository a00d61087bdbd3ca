"""Messages: the bytes of every codec against an obvious writer, and the stacked form to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import messages as slow

from fedrt.errors import MessageError
from fedrt.learning.codecs import make_format
from fedrt.messages import CODECS, message_bytes

CODEC_NAMES = tuple(CODECS)

EDGES = [
    [],
    [0.0],
    [-0.0] * 5,
    [1.0, -2.0, 3.0],
    [1e-45, -3e-39],  # below the least normal number: the scale is 0
    [2.0**-126, 2.0**-120, 1e-38],
    [3.4028235e38, -1.0, 1e38, 3.3e38],  # the scale is held back: their levels are clipped
    [-3.4028235e38] * 300,
    [65504.0, 65520.0, 1e6, 6e-8, 1e-9],
    [0.5, 1.5, 2.5, 3.5, 7.0, -0.5, -1.5, -2.5],  # halves go to even levels
    [1.0] * 255 + [-7.0] + [1e-3] * 257,
    list(np.linspace(-1, 1, 771)),
]


def same(a, b) -> bool:
    """Equal numbers; 0 and -0 are."""
    return np.array_equal(np.asarray(a, dtype=np.float32), np.asarray(b, dtype=np.float32))


def check(numbers, codec: str, share: float) -> None:
    vector = np.array(numbers, dtype=np.float32)
    coded = make_format(codec, share)
    message = coded.encode(torch.from_numpy(vector))
    expected, decoded = slow.message(vector, codec, share)
    assert message == expected
    assert len(message) == message_bytes(codec, len(vector), share)
    found = coded.decode(message, len(vector))
    assert found.dtype == torch.float32
    assert bool(found.isfinite().all())
    assert same(found, decoded)
    rows = torch.from_numpy(np.stack([vector, -vector]))
    stacked = coded.decoded(rows)
    assert same(stacked[0], decoded)
    assert same(coded.decoded(rows.double())[0], decoded)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_edge_cases_are_written_as_the_slow_writer_does(codec):
    for numbers in EDGES:
        check(numbers, codec, 0.3)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.one_of(
    st.lists(finite, max_size=20),
    st.builds(
        lambda seed, size, power, tail: list(
            10.0**power * np.random.default_rng(seed).standard_normal(size) ** (3 if tail else 1)
        ),
        st.integers(0, 2**32),
        st.integers(1, 600),
        st.floats(-35, 30),
        st.booleans(),
    ),
)


@settings(max_examples=150)
@given(vectors, st.sampled_from(CODEC_NAMES), st.floats(0.001, 1))
def test_any_numbers_are_written_as_the_slow_writer_does(numbers, codec, share):
    check(numbers, codec, share)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_not_sent(codec, bad):
    with pytest.raises(MessageError, match=f"message of {codec}: not all numbers are finite"):
        make_format(codec).encode(torch.tensor([1.0, bad]))


def test_only_vectors_are_sent():
    with pytest.raises(MessageError, match=r"of shape \(1, 2\): must be a vector"):
        make_format("int4").encode(torch.zeros(1, 2))


def test_rounding_to_levels_by_hand():
    """int3 has levels -3 to 3. The greatest, 6, gives the scale 2: 1 is halfway, and goes to 0.

    3 = 1.5 levels goes to 2, the even one: 4. Codes: 3 + 3 = 6, 3, 5, 2 in three bits each,
    lowest first: 6 + 3 x 8 + 5 x 64 + 2 x 512 = 1374 = 0x055e; the scale 2.0 is 0x4000.
    """
    message = make_format("int3").encode(torch.tensor([6.0, 1.0, 3.0, -2.0]))
    assert message[16:] == bytes([0x00, 0x40, 0x5E, 0x05])
    assert message[:12] == b"FU\x01\x06\x04\x00\x00\x00\x00\x00\x00\x00"
    assert make_format("int3").decode(message).tolist() == [6, 0, 4, -2]


def test_of_equal_numbers_the_first_are_sent():
    coded = make_format("top-k", 0.5)
    message = coded.encode(torch.tensor([1.0, -1, 2, 1, -1, 0]))
    assert coded.decode(message).tolist() == [1, -1, 2, 0, 0, 0]
