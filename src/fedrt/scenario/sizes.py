"""The lengths of the messages that carry a scenario's model, in bits."""

from __future__ import annotations

from typing import Any

from fedrt.messages import UNCOMPRESSED, message_bytes
from fedrt.scenario.entries import make_own, refuse
from fedrt.scenario.model import Learning

NUMBER_BITS = 32
MOST_BYTES = 10**12
BUFFERS = {"resnet20": 1395}
"""What the shipped models hold beside their parameters, such as running means; others nothing."""

LEAST_PARAMETERS = {"resnet20": 268_849, "lenet5": 51_571, "small-cnn": 4_833, "smooth-cnn": 4_833}
"""The parameters that the shipped models have at least: for one channel and one class."""


def size_notes(learning: Learning) -> list[str]:
    """A line if `model_bits` is less than the model can have, whatever the data."""
    bits, least = learning.model_bits, LEAST_PARAMETERS.get(learning.model, 1)
    if isinstance(bits, str) or bits >= NUMBER_BITS * least:
        return []
    return [
        f"scenario.learning.model_bits = {bits:.6g} cannot be that of the model"
        f" {learning.model}, which has {NUMBER_BITS * least} bit or more: time, energy and the"
        " messages of codecs are those of another model"
    ]


def parameters_in(model_bits: float) -> int:
    """The number of parameters of a model of that size, with 32 bit each."""
    return max(1, round(model_bits / NUMBER_BITS))


def buffer_bits(learning: Learning) -> float:
    """The bits of the model's buffers, which every message of a codec carries as float32."""
    given = learning.model_buffers
    return float(NUMBER_BITS * (BUFFERS.get(learning.model, 0) if given is None else given))


def message_bits(
    codec: str, model_bits: float, buffer_bits: float = 0.0, share: float | None = None
) -> float:
    """The bits of a message of a codec with all parameters and buffers; `none`: the model's own.

    `share` is that of `top-k`.
    """
    if codec == UNCOMPRESSED:
        return model_bits
    return 8.0 * message_bytes(codec, parameters_in(model_bits), share) + buffer_bits


def variate_bits(learning: Learning, model_bits: float) -> float:
    """The bits of SCAFFOLD's control variate beside an update: a float32 for each parameter."""
    return float(NUMBER_BITS * parameters_in(model_bits)) if learning.scaffold else 0.0


def upload_bits(learning: Learning, model_bits: float) -> float:
    """The bits of an update's message under the scenario's codec, with a variate if there is one.

    A variate goes as it is, whatever the codec.
    """
    codec, buffers = learning.codec, buffer_bits(learning)
    variate = variate_bits(learning, model_bits)
    if isinstance(codec, str):
        return message_bits(codec, model_bits, buffers, learning.top_k) + variate
    own = make_own(codec, learning.codec_setting, ("encode", "decode", "message_bytes"))
    length: Any = own.message_bytes(parameters_in(model_bits))
    if type(length) is not int or not 0 <= length <= MOST_BYTES:
        raise refuse(own, f"message_bytes must return a whole number >= 0, not {length!r}")
    return 8.0 * length + buffers + variate
