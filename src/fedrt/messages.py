"""The update codecs and the lengths of their messages, stated once in `CODECS`.

Menus, the ladder and all lists of names follow from these facts. A message is as long as the number
of numbers in it says, whatever they are: planning and charging need no message to be made.
docs/codecs.md has the formats byte by byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

from fedrt.errors import InputError
from fedrt.registry import MESSAGE, UpdateEntry
from fedrt.system.plugins import load_plugin, own_code
from fedrt.validation import shown

Raw = bytes | memoryview
"""The bytes of a message or a model, or a view of them: large ones are not copied."""
HEADER_BYTES = 16
BLOCK = 256
"""The numbers of an update that share a scale."""
SCALE_BYTES = 2
TOP_K = 0.01
"""The share of an update's numbers that `top-k` sends where nothing else is given."""
PLACE_BYTES, VALUE_BYTES = 4, 4
"""Of a number that `top-k` sends: its place and its value, a float32."""


def numbers_sent(numbers: int, share: float | None = None) -> int:
    """How many of an update's numbers `top-k` sends: the share, rounded, and at least one."""
    return min(numbers, max(1, round((TOP_K if share is None else share) * numbers)))


def _top_k_bytes(numbers: int, share: float | None) -> int:
    return (PLACE_BYTES + VALUE_BYTES) * numbers_sent(numbers, share)


def _top_k_distortion(share: float | None) -> float:
    """What `top-k` leaves out: all numbers below the quantile x at which the share is left.

    1 - share - 2 x phi(x), where phi is the normal density.
    """
    normal, part = NormalDist(), TOP_K if share is None else share
    if part >= 1:
        return 0.0
    x = normal.inv_cdf(1 - part / 2)
    return 1 - part - 2 * x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class CodecEntry(UpdateEntry):
    """An update codec. Its path is that of its message format, made with its name and a share."""

    gives: str = MESSAGE
    number: int = -1
    """What stands for it in the header of a message; that of no codec ever changes."""
    distortion: float | Callable[[float | None], float] = 0.0
    """The expected squared error of a message over the squared norm of what it codes, for
    independent normal numbers; or how it follows from the share."""
    bits: int | None = None
    """The bits of every number; None: `body_bytes` says how long a message is."""
    blocks: bool = False
    """Whether numbers are rounded to levels of a scale that every block of them has."""
    body_bytes: Callable[[int, float | None], int] | None = None
    """The bytes after the header from the number of numbers and the share."""
    header_bytes: int = HEADER_BYTES
    """The bytes before those of the numbers."""
    selectable: bool = True
    """Whether a policy may choose it for an upload."""
    gossips: bool = True
    """Whether edge servers can gossip with it: its differences shrink from step to step."""
    step: int | None = None
    """Its step in the ladder; None: no device is stepped up from it or to it."""


_BLOCKS, _FLOATS = "fedrt.learning.codecs.blocks:Blocks", "fedrt.learning.codecs.floats:Floats"
_TOP_K = "fedrt.learning.codecs.top_k:TopK"
CODECS = {
    "float32": CodecEntry(_FLOATS, number=0, distortion=0.0, bits=32),
    "float16": CodecEntry(_FLOATS, number=1, distortion=4.31e-8, bits=16, step=6),
    "int8": CodecEntry(_BLOCKS, number=2, distortion=4.89e-5, bits=8, blocks=True, step=5),
    "int6": CodecEntry(_BLOCKS, number=3, distortion=8.17e-4, bits=6, blocks=True, step=4),
    "int5": CodecEntry(_BLOCKS, number=4, distortion=3.49e-3, bits=5, blocks=True, step=3),
    "int4": CodecEntry(_BLOCKS, number=5, distortion=1.60e-2, bits=4, blocks=True, step=2),
    "int3": CodecEntry(_BLOCKS, number=6, distortion=8.73e-2, bits=3, blocks=True, step=1),
    "int2": CodecEntry(
        _BLOCKS, number=7, distortion=0.653, bits=2, blocks=True, step=0, gossips=False
    ),
    "top-k": CodecEntry(
        _TOP_K,
        number=8,
        distortion=_top_k_distortion,
        body_bytes=_top_k_bytes,
        selectable=False,
        gossips=False,
    ),
}
"""The shipped codecs. tests/test_messages.py computes the distortions again."""
UNCOMPRESSED = "none"
"""A message of the numbers alone, as float32 without a header."""
_WHOLE = CodecEntry("fedrt.learning.codecs.floats:Uncompressed", bits=32, header_bytes=0)
UPLOADS = {UNCOMPRESSED: _WHOLE, **CODECS}
"""How an upload may be sent."""
SELECTABLE = tuple(name for name in reversed(CODECS) if CODECS[name].selectable)
"""The codecs that a policy may choose, few bits first."""
GOSSIP_CODECS = (UNCOMPRESSED, *(name for name, codec in CODECS.items() if codec.gossips))
"""How edge servers may send each other their models; `none`: as they are."""
LADDER = tuple(
    name
    for _, name in sorted(
        (codec.step, name) for name, codec in CODECS.items() if codec.step is not None
    )
)
"""The codecs in the order in which a device whose messages leave too much out is stepped up."""


class UserCodec(Protocol):
    """The facts by which a policy may choose a user's codec, which must have no `init`."""

    selectable: bool
    distortion: float

    def message_bytes(self, size: int) -> int:
        """The length of every message about an update of `size` numbers."""
        ...

    def encode(self, update: Any, state: None) -> tuple[bytes, None]:
        """The message of an update."""
        ...

    def decode(self, message: bytes) -> Any:
        """The update that a message stands for."""
        ...


def user_codec(path: str) -> UserCodec:
    """A user's codec that states the facts by which a policy may choose it."""
    name = f"scenario.control.codecs = {shown(path)}"
    factory = load_plugin(path, "scenario.control.codecs")
    with own_code(name):
        codec: Any = factory()
    lacking = [m for m in ("encode", "decode", "message_bytes") if not _has_method(codec, m)]
    if lacking:
        raise InputError(f"{name}: must have the methods {', '.join(lacking)}")
    if getattr(codec, "selectable", None) is not True:
        raise InputError(f"{name}: must have selectable = True, for policies to choose it")
    lost = getattr(codec, "distortion", None)
    if isinstance(lost, bool) or not isinstance(lost, int | float) or not 0 <= lost < math.inf:
        raise InputError(f"{name}: must have a distortion, a number >= 0")
    if _has_method(codec, "init"):
        rule = "must have no init: what a chosen codec leaves out is remembered for it"
        raise InputError(f"{name}: {rule}")
    return codec


def _has_method(thing: object, name: str) -> bool:
    return callable(getattr(thing, name, None))


def levels(codec: str) -> int:
    """The number of levels on each side of zero of a codec that rounds: 7 of `int4`."""
    bits = CODECS[codec].bits
    assert bits is not None
    return int(2 ** (bits - 1) - 1)


def message_bytes(codec: str, numbers: int, share: float | None = None) -> int:
    """The length of the message of an update with that many numbers, header included.

    `share` is that of `top-k`. A codec with a colon is a user's own.
    """
    if ":" in codec:
        user = user_codec(codec)
        with own_code(f"scenario.control.codecs = {shown(codec)}"):
            return int(user.message_bytes(numbers))
    facts = UPLOADS[codec]
    if facts.body_bytes is not None:
        return facts.header_bytes + facts.body_bytes(numbers, share)
    assert facts.bits is not None
    scales = SCALE_BYTES * -(-numbers // BLOCK) if facts.blocks else 0
    return facts.header_bytes + scales + -(-facts.bits * numbers // 8)


def distortion(codec: str, share: float | None = None) -> float:
    """The expected squared error of a message over the squared norm of what it codes."""
    if ":" in codec:
        return float(user_codec(codec).distortion)
    lost = UPLOADS[codec].distortion
    return lost(share) if callable(lost) else lost


def left_limit(codec: str) -> float:
    """What a device may have left to send, over the norm of its update, before it is stepped up.

    Where a message leaves the share d of a squared norm, at most sqrt(d) / (1 - sqrt(d)) of the
    greatest update is left under error feedback: |e'| <= sqrt(d) (|u| + |e|). Updates have more
    distortion than normal numbers, though less than a whole update left over does no harm: the
    limit is at least 1.
    """
    root = math.sqrt(distortion(codec))
    return max(1.0, root / (1 - root))
