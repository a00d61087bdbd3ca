"""Data sets by writer: how many samples each has, and which are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support import data_files as made

from fedrt.data.catalogue import Dataset, draw_writers, load_dataset
from fedrt.errors import InputError


def writers(counts: list[int], name: str = "femnist") -> Dataset:
    """A data set whose writer i has counts[i] samples; every image holds its own number."""
    writer = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    images = np.arange(len(writer), dtype=np.float32).reshape(-1, 1, 1, 1)
    cut = len(writer) // 3
    return Dataset(
        name,
        images[cut:],
        writer[cut:] % 62,
        images[:cut],
        writer[:cut] % 62,
        62,
        writer[cut:],
        writer[:cut],
    )


@given(
    st.lists(st.integers(80, 140), min_size=1, max_size=8),
    st.integers(0, 1000),
    st.data(),
)
def test_femnist_writers_have_100_samples_and_a_tenth_tests(counts, seed, data):
    whole = writers(counts)
    eligible = sum(count >= 100 for count in counts)
    if not eligible:
        with pytest.raises(InputError, match="0 writers with at least 100 samples"):
            draw_writers(whole, 1, seed)
        return
    number = data.draw(st.integers(1, eligible))
    drawn = draw_writers(whole, number, seed)
    held = np.concatenate([drawn.train_images, drawn.test_images]).ravel()
    assert len(set(held)) == len(held)
    original = np.concatenate([whole.test_writer, whole.train_writer])  # images count from there
    names = []
    for i in range(number):
        train, test = drawn.train_writer == i, drawn.test_writer == i
        size = int(train.sum() + test.sum())
        assert abs(test.sum() - 0.1 * size) <= 0.5
        (name,) = set(original[drawn.train_images[train].ravel().astype(int)])
        assert {name} == set(original[drawn.test_images[test].ravel().astype(int)])
        # Labels stay with their images: here every writer has written one thing alone.
        assert {name % 62} == set(drawn.train_labels[train]) | set(drawn.test_labels[test])
        assert size == counts[name] >= 100
        names.append(name)
    assert len(set(names)) == number
    # Keyed: again the same, and one writer more moves none of the others.
    again = draw_writers(whole, number, seed)
    assert_array_equal(again.train_images, drawn.train_images)
    if number > 1:
        fewer = draw_writers(whole, number - 1, seed)
        first = drawn.train_writer < number - 1
        assert_array_equal(fewer.train_images, drawn.train_images[first])


def test_writers_are_drawn_by_the_seed():
    whole = writers([100] * 30)
    picks = {tuple(np.unique(draw_writers(whole, 3, s).train_images)) for s in range(5)}
    assert len(picks) == 5


def test_own_writers_need_two_samples_and_keep_a_split_without_test_writers(tmp_path, no_folder):
    path = tmp_path / "own.npz"
    made.write_own(path, writer_train=np.repeat([7, 10**17, -3, 5], 5))
    dataset = load_dataset(str(path), None, 3, 0)
    assert len(dataset.train_labels) == 15
    assert len(dataset.test_labels) == 8
    assert_array_equal(np.unique(dataset.train_writer), [0, 1, 2])
    with pytest.raises(InputError, match="4 writers with at least 2 samples: must be at least one"):
        load_dataset(str(path), None, 5, 0)
    made.write_own(path)
    with pytest.raises(InputError, match="have no writers"):
        draw_writers(load_dataset(str(path)), 1, 0)
