"""Update codecs: how a device's update is compressed before it is sent.

`learning.upload` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.codecs.base import Codec, Sent, first_states, transmit
from fedrt.learning.codecs.blocks import Blocks
from fedrt.learning.codecs.feedback import ErrorFeedback
from fedrt.learning.codecs.floats import Floats
from fedrt.learning.codecs.formats import Format
from fedrt.learning.codecs.none import no_codec
from fedrt.learning.codecs.top_k import TopK
from fedrt.messages import BITS, CODEC_NAMES
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Learning

__all__ = [
    "CODECS",
    "Codec",
    "ErrorFeedback",
    "Format",
    "Sent",
    "first_states",
    "make_codec",
    "make_format",
    "transmit",
]


def make_format(name: str, share: float | None = None) -> Format:
    """The message format of a shipped codec; `share` is that of `top-k`."""
    if name in BITS:
        return Blocks(name)
    return TopK(share) if name == "top-k" else Floats(name)


def _shipped(name: str) -> Callable[[Learning], Codec]:
    return lambda learning: ErrorFeedback(make_format(name, learning.top_k))


CODECS: dict[str, Callable[[Learning], Codec | None]] = {
    "none": no_codec,
    **{name: _shipped(name) for name in CODEC_NAMES},
}
"""Every shipped codec by its name, made from the settings of a scenario."""


def make_codec(learning: Learning) -> Codec | None:
    """The codec that a scenario names, None for none; a user's own gets its options."""
    chosen = learning.upload or "none"
    if isinstance(chosen, str):
        return CODECS[chosen](learning)
    made: Codec = make_own(chosen, "upload", ("encode", "decode"))
    return made
