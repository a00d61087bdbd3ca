"""Samples as a model gets them: normalised, and augmented like an image at a time by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.learning_cases import CPU, noise

from fedrt.data.catalogue import Dataset, load_dataset
from fedrt.learning.engines.samples import TensorSamples, augment

pytestmark = pytest.mark.numerical


def floats(*shape: int) -> Dataset:
    rng = np.random.default_rng(2)
    scale = np.linspace(1, 100, shape[-1])

    def draw(count):
        values = rng.normal(7, 1, (count, *shape)) * scale
        return values.astype(np.float32), rng.integers(0, 3, count)

    return Dataset("floats", *draw(200), *draw(20), 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "dataset",
    [noise((3, 6, 5)), noise((1, 8, 8)), floats(6, 5, 3), floats(9), load_dataset("digits")],
    ids=["bytes", "grey bytes", "floats", "vectors", "digits"],
)
def test_training_inputs_have_mean_0_and_deviation_1(dataset, dtype):
    samples = TensorSamples(dataset, dtype, CPU)
    count = len(dataset.train_labels)
    inputs, labels = samples.batch(torch.arange(count))
    assert inputs.dtype == dtype
    assert inputs.shape == (count, *samples.shape)
    assert torch.equal(labels, torch.as_tensor(dataset.train_labels))
    axes = [0, 2, 3] if inputs.ndim == 4 else [0]
    close = 1e-9 if dtype == torch.float64 else 2e-4
    assert_allclose(inputs.double().mean(axes), 0, atol=close)
    assert_allclose(inputs.double().std(axes, correction=0), 1, atol=close)


def test_each_pixel_is_normalised_as_by_hand():
    """Channels come first, and the test set has the training set's mean and deviation."""
    dataset = noise((3, 6, 5))
    samples = TensorSamples(dataset, torch.float64, CPU)
    flat = dataset.train_images.reshape(-1, 3) / 255
    mean, deviation = flat.mean(0), flat.std(0)
    inputs = samples.normalise(samples.test)
    for i, c, row, column in [(0, 0, 0, 0), (3, 1, 5, 4), (19, 2, 2, 3), (7, 0, 4, 1)]:
        raw = dataset.test_images[i, row, column, c] / 255
        assert float(inputs[i, c, row, column]) == pytest.approx((raw - mean[c]) / deviation[c])


def test_a_pixel_that_never_changes_does_no_harm():
    dataset = noise((1, 4, 4))
    dataset.train_images[:] = 9
    inputs, _ = TensorSamples(dataset, torch.float32, CPU).batch(torch.arange(5))
    assert_allclose(inputs, 0, atol=1e-6)


def by_hand(image: np.ndarray, down: int, right: int, flip: int) -> np.ndarray:
    """Pad by 4 zeros, cut out, mirror: one pixel at a time."""
    channels, height, width = image.shape
    padded = np.zeros((channels, height + 8, width + 8), image.dtype)
    padded[:, 4:-4, 4:-4] = image
    cut = padded[:, down : down + height, right : right + width]
    return cut[:, :, ::-1] if flip else cut


@given(
    draws=st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=6
    ),
    channels=st.sampled_from([1, 3]),
)
def test_augmentation_is_a_loop_over_images(draws, channels):
    images = np.random.default_rng(0).normal(size=(len(draws), channels, 7, 9))
    got = augment(torch.as_tensor(images), torch.tensor(draws)).numpy()
    wanted = np.stack([by_hand(image, *draw) for image, draw in zip(images, draws, strict=True)])
    np.testing.assert_array_equal(got, wanted)


def test_every_draw_once():
    every = [(down, right, flip) for down in range(9) for right in range(9) for flip in range(2)]
    images = np.random.default_rng(1).normal(size=(len(every), 3, 6, 6)).astype(np.float32)
    got = augment(torch.as_tensor(images), torch.tensor(every)).numpy()
    wanted = np.stack([by_hand(image, *draw) for image, draw in zip(images, every, strict=True)])
    np.testing.assert_array_equal(got, wanted)
    middle = every.index((4, 4, 0))
    np.testing.assert_array_equal(got[middle], images[middle])


def test_augmented_batches_in_any_order():
    """What becomes of a sample depends on its own draw only; the border is 0 after normalising."""
    samples = TensorSamples(noise((3, 6, 5)), torch.float32, CPU)
    rng = np.random.default_rng(5)
    chosen, draws = rng.integers(0, 90, 32), rng.integers(0, [9, 9, 2], (32, 3))
    plain, labels = samples.batch(torch.as_tensor(chosen))
    got, same = samples.batch(torch.as_tensor(chosen), torch.as_tensor(draws))
    assert torch.equal(labels, same)
    wanted = [by_hand(image, *draw) for image, draw in zip(plain.numpy(), draws, strict=True)]
    np.testing.assert_array_equal(got.numpy(), np.stack(wanted))
    order = rng.permutation(32)
    mixed, mixed_labels = samples.batch(
        torch.as_tensor(chosen[order]), torch.as_tensor(draws[order])
    )
    assert torch.equal(mixed, got[order])
    assert torch.equal(mixed_labels, labels[order])
