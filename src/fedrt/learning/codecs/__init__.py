"""Update codecs: how a device's update is compressed before it is sent.

`learning.upload` names one of `messages.CODECS`, or the import path of a user's own.
"""

from __future__ import annotations

from fedrt.learning.codecs.base import (
    Codec,
    Sent,
    first_states,
    make_codec,
    message_length,
    send_own,
)
from fedrt.learning.codecs.feedback import ErrorFeedback, make_format
from fedrt.learning.codecs.formats import Format

__all__ = [
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
