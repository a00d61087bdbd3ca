"""Update codecs: how a device's update is compressed before it is sent.

`learning.upload` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.codecs.base import Codec, Sent, first_states, message_length, send_own
from fedrt.learning.codecs.feedback import ErrorFeedback, make_format
from fedrt.learning.codecs.formats import Format
from fedrt.learning.codecs.none import no_codec
from fedrt.messages import CODEC_NAMES
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
    "message_length",
    "send_own",
]


def _shipped(name: str) -> Callable[[Learning], Codec]:
    return lambda learning: ErrorFeedback(name, learning.top_k)


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
    made: Codec = make_own(chosen, "upload", ("encode", "decode", "message_bytes"))
    return made
