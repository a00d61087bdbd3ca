"""Training and test samples as tensors on the device that trains, normalised and augmented."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

from fedrt.data.batches import CROP_PADDING
from fedrt.data.catalogue import Dataset, FloatArray, channel_stats
from fedrt.errors import InputError
from fedrt.scenario.methods import Normalisation


class TensorSamples:
    """A data set as tensors on a device; `batch` returns inputs ready for the model."""

    def __init__(
        self,
        dataset: Dataset,
        dtype: torch.dtype,
        device: torch.device,
        normalise: bool | Normalisation | None = None,
    ) -> None:
        self.dtype, self.device, self.num_classes = dtype, device, dataset.num_classes
        self.integers = dataset.train_images.dtype.kind == "i"
        mean, deviation = statistics(dataset.train_images, normalise)
        self.images = dataset.train_images.ndim == 4
        shape = (-1, 1, 1) if self.images else (-1,) if np.size(mean) > 1 else ()
        self.mean = torch.as_tensor(mean, dtype=dtype, device=device).reshape(shape)
        self.scale = 1.0 / torch.as_tensor(deviation, dtype=dtype, device=device).reshape(shape)
        self.bytes = dataset.train_images.dtype == np.uint8
        self.train = self._place(dataset.train_images)
        self.test = self._place(dataset.test_images)
        self.train_labels = self._labels(dataset.train_labels)
        self.test_labels = self._labels(dataset.test_labels)
        self.shape = tuple(self.train.shape[1:])

    def _place(self, images: NDArray[np.generic]) -> Tensor:
        """Images on the device with channels first; bytes stay bytes to save memory."""
        if self.images:
            images = np.moveaxis(images, -1, 1)
        return torch.as_tensor(np.require(images, requirements=["C", "W"]), device=self.device)

    def _labels(self, labels: NDArray[np.generic]) -> Tensor:
        """Labels on the device; those of floating point in the type of the model."""
        found = torch.as_tensor(labels, device=self.device)
        return found.to(self.dtype) if found.is_floating_point() else found

    def normalise(self, raw: Tensor) -> Tensor:
        """Inputs with mean 0 and deviation 1, by default those of the training set."""
        return normalised(raw, self.mean, self.scale, self.bytes)

    def batch(self, chosen: Tensor, augmentation: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Inputs and labels of the chosen training samples."""
        inputs = self.normalise(self.train[chosen])
        if augmentation is not None:
            inputs = augment(inputs, augmentation)
        return inputs, self.train_labels[chosen]


def statistics(
    inputs: NDArray[np.generic], normalise: bool | Normalisation | None
) -> tuple[FloatArray, FloatArray]:
    """The mean and deviation by which inputs are normalised, one number or one per channel."""
    if inputs.dtype.kind == "i" or normalise is False:
        return np.zeros(1), np.ones(1)
    if not isinstance(normalise, Normalisation):
        return channel_stats(inputs)
    given = np.atleast_1d(normalise.mean), np.atleast_1d(normalise.deviation)
    for name, values in zip(("mean", "deviation"), given, strict=True):
        if values.size not in (1, inputs.shape[-1]):
            rule = f"one number, or one for each of the {inputs.shape[-1]} channels"
            field = f"scenario.learning.normalise.{name}"
            raise InputError(f"{field}: has {values.size} numbers: must be {rule}")
    mean, deviation = np.broadcast_arrays(*given)
    return mean, deviation


def normalised(raw: Tensor, mean: Tensor, scale: Tensor, of_bytes: bool) -> Tensor:
    """Samples with mean and scale applied, in their type; bytes are divided by 255.

    Whole numbers, such as tokens, stay as they are.
    """
    if not (of_bytes or raw.is_floating_point()):
        return raw
    values = raw.to(mean.dtype)
    if of_bytes:
        values = values / 255.0
    return (values - mean) * scale


def augment(inputs: Tensor, draws: Tensor) -> Tensor:
    """Images shifted within a border of zeros and perhaps mirrored, as drawn."""
    count, channels, height, width = inputs.shape
    padded = fn.pad(inputs, [CROP_PADDING] * 4)
    rows = draws[:, 0, None] + torch.arange(height, device=inputs.device)
    columns = torch.arange(width, device=inputs.device).expand(count, width)
    columns = torch.where(draws[:, 2, None] > 0, columns.flip(1), columns) + draws[:, 1, None]
    number = torch.arange(count, device=inputs.device)[:, None, None, None]
    channel = torch.arange(channels, device=inputs.device)[None, :, None, None]
    return padded[number, channel, rows[:, None, :, None], columns[:, None, None, :]]
