"""Batches: keyed by (seed, t, r, step, device) and uniform over the device's data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedrt.data.batches import Batches

SIZES = (5, 1, 40, 17, 8)
DEVICES = np.arange(5)


def parts(sizes=SIZES) -> list[np.ndarray]:
    """Sample numbers in no order, so that a mistaken offset shows."""
    mixed = np.random.default_rng(0).permutation(sum(sizes))
    return np.split(mixed, np.cumsum(sizes)[:-1])


def batches(batch_size=6, seed=4, sizes=SIZES) -> Batches:
    return Batches(parts(sizes), batch_size, seed)


DRAWS = ["draw", "draw_augmentation"]


@pytest.mark.parametrize("draw", DRAWS)
@given(
    devices=st.lists(st.integers(0, 4), unique=True, max_size=5),
    steps=st.integers(0, 4),
    t=st.integers(0, 3),
    r=st.integers(0, 3),
)
def test_a_draw_does_not_depend_on_who_else_draws_nor_how_much(draw, devices, steps, t, r):
    chosen = np.array(devices, dtype=np.int64)
    whole = getattr(batches(), draw)(t, r, 4, DEVICES)
    part = getattr(batches(), draw)(t, r, steps, chosen)
    assert_array_equal(part, whole[:steps, chosen])


def test_a_larger_fleet_leaves_the_first_devices_as_they_were():
    more = Batches([*parts(), np.arange(100, 130)], 6, 4)
    assert_array_equal(more.draw(1, 0, 3, np.arange(6))[:, :5], batches().draw(1, 0, 3, DEVICES))
    seeds = more.draw_seeds(1, 0, np.arange(6))
    assert_array_equal(seeds[[3, 1]], batches().draw_seeds(1, 0, np.array([3, 1])))
    assert len(set(seeds.tolist())) == 6


@pytest.mark.parametrize("draw", DRAWS)
def test_every_part_of_the_key_counts(draw):
    def drawn(seed=4, t=0, r=0):
        return getattr(batches(seed=seed), draw)(t, r, 2, np.array([2, 3]))

    start = drawn()
    assert_array_equal(start, drawn())
    for other in (drawn(seed=5), drawn(t=1), drawn(r=1), start[::-1]):
        assert (other != start).any()
    if draw == "draw_augmentation":
        assert (start[:, 0] != start[:, 1]).any()


def test_devices_draw_their_own_samples_also_fewer_than_a_batch():
    drawn = batches(batch_size=64).draw(0, 0, 20, DEVICES)
    for n, own in enumerate(parts()):
        assert set(drawn[:, n].flat) == set(own.tolist())


def test_draws_are_uniform_with_replacement():
    """Chi-squared over 48,000 draws of 40 samples: its mean is 39, its deviation sqrt(78)."""
    own = parts()[2]
    drawn = batches(batch_size=400).draw(2, 1, 120, np.array([2]))
    counts = np.bincount(drawn.ravel(), minlength=own.max() + 1)[own]
    expected = drawn.size / len(own)
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_squared - 39) < 5 * np.sqrt(78)
    # A place within a batch tells nothing about the next: repeats are as frequent as they must be.
    repeats = (drawn[..., 1:] == drawn[..., :-1]).mean()
    assert repeats == pytest.approx(1 / 40, abs=5 * np.sqrt(1 / 40 / drawn.size))


def test_shifts_and_flips_are_uniform():
    drawn = batches(batch_size=500).draw_augmentation(0, 0, 20, np.array([4]))
    for axis, values in ((0, 9), (1, 9), (2, 2)):
        counts = np.bincount(drawn[..., axis].ravel(), minlength=values)
        assert len(counts) == values
        expected = 10_000 / values
        chi_squared = ((counts - expected) ** 2 / expected).sum()
        assert chi_squared < values - 1 + 5 * np.sqrt(2 * (values - 1))
