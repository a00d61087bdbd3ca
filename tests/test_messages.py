"""The lengths and distortions of messages, by hand and by integration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrt.control.coding.menu import MENU
from fedrt.messages import (
    CODECS,
    GOSSIP_CODECS,
    LADDER,
    SELECTABLE,
    distortion,
    levels,
    message_bytes,
    numbers_sent,
)

BLOCKS = [name for name, codec in CODECS.items() if codec.blocks]


def test_lengths_by_hand():
    """300 numbers are two blocks: 16 of the header, 2 x 2 of scales, and 300 x 3 bits in bytes."""
    assert message_bytes("float32", 300) == 16 + 1200
    assert message_bytes("float16", 300) == 16 + 600
    assert message_bytes("int8", 300) == 16 + 4 + 300
    assert message_bytes("int3", 300) == 16 + 4 + 113  # 112.5
    assert message_bytes("int2", 256) == 16 + 2 + 64
    assert message_bytes("top-k", 300) == 16 + 3 * 8
    assert message_bytes("top-k", 300, 0.5) == 16 + 150 * 8
    assert [numbers_sent(n, 0.01) for n in (0, 1, 100, 149, 151)] == [0, 1, 1, 1, 2]
    assert {codec: levels(codec) for codec in BLOCKS} == {
        "int8": 127,
        "int6": 31,
        "int5": 15,
        "int4": 7,
        "int3": 3,
        "int2": 1,
    }


def block_distortion(count: int) -> float:
    """The distortion of blocks of 256 normal numbers, integrated over the greatest of them, m.

    Its density is 256 g(m) G(m)^255 with the half-normal density g; the 255 others are normal
    between -m and m, and the step is m over the number of levels: bfloat16 adds 0.3 % on average.
    """
    m = np.linspace(1.2, 6.5, 1500)
    g = math.sqrt(2 / math.pi) * np.exp(-m * m / 2)
    below = np.array([math.erf(x / math.sqrt(2)) for x in m])
    density = 256 * g * below**255
    share = np.linspace(0, 1, 4001)
    x = m[:, None] * share
    weight = np.exp(-x * x / 2)
    step = m[:, None] / count
    # Rounded up to one of 128 numbers between two powers of two: the mean of the squared excess.
    step = step * (1 + 0.00266)
    error = (x - step * np.rint(x / step)) ** 2
    mean = np.trapezoid(error * weight, axis=1) / np.trapezoid(weight, axis=1)
    return float(np.trapezoid(density * 255 * mean, m) / np.trapezoid(density, m) / 256)


@pytest.mark.parametrize("codec", BLOCKS)
def test_distortions_of_rounding_to_levels(codec):
    assert distortion(codec) == pytest.approx(block_distortion(levels(codec)), rel=0.01)


def test_distortions_of_floats_and_of_the_greatest():
    """A float16 has 11 bits: an error of 2^-11 of the power of two below, at most, over all."""
    assert distortion("float32") == 0
    x = np.random.default_rng(0).standard_normal(10**6)
    kept = x.astype(np.float16).astype(float)
    assert distortion("float16") == pytest.approx(((x - kept) ** 2).sum() / (x**2).sum(), rel=0.01)
    size = np.sort(x**2)[::-1]
    for share in (0.01, 0.1, 0.5):
        left = size[int(share * len(x)) :].sum() / size.sum()
        assert distortion("top-k", share) == pytest.approx(left, rel=0.005)
    assert distortion("top-k") == distortion("top-k", 0.01)
    assert distortion("top-k", 1.0) == 0
    lost = [distortion(name) for name in SELECTABLE]
    assert lost == sorted(lost, reverse=True)


def test_lists_follow_from_the_facts():
    """What older messages, records and checkpoints have of them never changes."""
    names = ("float32", "float16", "int8", "int6", "int5", "int4", "int3", "int2", "top-k")
    assert {name: codec.number for name, codec in CODECS.items()} == {
        name: number for number, name in enumerate(names)
    }
    assert LADDER == ("int2", "int3", "int4", "int5", "int6", "int8", "float16")
    assert [CODECS[name].step for name in LADDER] == list(range(len(LADDER)))
    assert (*LADDER, "float32") == SELECTABLE
    assert ("none", *names[:7]) == GOSSIP_CODECS
    assert LADDER[1:] == MENU
