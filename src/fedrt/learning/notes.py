"""Notes and errors about a scenario's model and data, before training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.learning.models.flat import FlatModel
from fedrt.scenario.model import Learning
from fedrt.scenario.sizes import NUMBER_BITS, buffer_bits, parameters_in
from fedrt.validation import problem


def size_note(model_bits: float, parameters: int) -> tuple[str, ...]:
    """A note if the scenario's `model_bits` is not the size of the model that trains."""
    bits = NUMBER_BITS * parameters
    if abs(model_bits - bits) <= 1e-3 * bits:
        return ()
    return (
        f"note: scenario.learning.model_bits = {model_bits:.6g}, but the model has {parameters}"
        f" parameters, {bits} bit; 'measured' takes them",
    )


def refuse_other_lengths(learning: Learning, model_bits: float, model: FlatModel) -> None:
    """Raise an error if messages of a codec would be charged for another model than they carry."""
    if learning.codec == "none" and learning.gossip in (None, "none"):
        return
    lines = []
    if parameters_in(model_bits) != model.num_parameters:
        bits = NUMBER_BITS * model.num_parameters
        rule = f"{bits}, or 'measured', with a codec: the model has {model.num_parameters}"
        lines.append(
            problem("scenario.learning.model_bits", model_bits, f"{rule} parameters of 32 bit")
        )
    charged = round(buffer_bits(learning) / NUMBER_BITS)
    held = model.size - model.num_parameters
    if charged != held:
        rule = f"{held} with a codec: what the model holds beside its parameters"
        lines.append(problem("scenario.learning.model_buffers", charged, rule))
    if lines:
        raise InputError(lines)


def batch_note(sizes: NDArray[np.int64], batch_size: int) -> tuple[str, ...]:
    """A note if a batch is larger than the data of some device."""
    few = int((sizes < batch_size).sum())
    if not few:
        return ()
    return (
        f"note: {few} of {len(sizes)} devices hold fewer samples than learning.batch_size ="
        f" {batch_size}, the least {sizes.min()}: their batches have samples several times",
    )


def layout_note(shape: tuple[int, ...]) -> tuple[str, ...]:
    """A note if images seem to have their channels first in the file."""
    if len(shape) != 3 or not (shape[1] in (1, 3) and shape[0] == shape[2] > 4):
        return ()
    channels, height, width = shape
    return (
        f"note: inputs are taken as {height} x {width} with {channels} channels; if they are"
        f" {width} x {channels} with {height}, put the channels last",
    )
