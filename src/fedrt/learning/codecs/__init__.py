"""Update codecs: how a device's update is compressed before it is sent.

`learning.codec` names one of these, or the import path of a user's own.
"""

from __future__ import annotations

from collections.abc import Callable

from fedrt.learning.codecs.base import Codec, Sent, first_states, transmit
from fedrt.learning.codecs.none import no_codec
from fedrt.scenario.entries import make_own
from fedrt.scenario.model import Learning

__all__ = ["CODECS", "Codec", "Sent", "first_states", "make_codec", "transmit"]

CODECS: dict[str, Callable[[Learning], Codec | None]] = {"none": no_codec}
"""Every shipped codec by its name, made from the settings of a scenario."""


def make_codec(learning: Learning) -> Codec | None:
    """The codec that a scenario names, None for none; a user's own gets its options."""
    chosen = learning.codec or "none"
    if isinstance(chosen, str):
        return CODECS[chosen](learning)
    made: Codec = make_own(chosen, "codec", ("encode", "decode"))
    return made
