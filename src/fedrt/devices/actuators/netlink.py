"""Changes and reads the rates of HTB's classes in the kernel, over netlink.

`tc` does the same, but as a new process it has to wait for a core before every round: on a machine
that trains, some of these waits are tens of milliseconds. Classes are made and removed by `tc`.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, number, sender."""
SUBJECT = struct.Struct("=BxxxiIII")
"""tcmsg: family, interface, handle, parent, info."""
ATTRIBUTE = struct.Struct("=HH")
RATE = struct.Struct("=BBHhHI")
"""tc_ratespec: cell_log, link layer, overhead, cell_align, mpu, bytes per second."""
OPTIONS = struct.Struct("=12s12sIIIII")
"""tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio."""
NEW_CLASS, GET_CLASS, ERROR, DONE = 40, 42, 2, 3
REQUEST, ACKNOWLEDGE, DUMP = 0x1, 0x4, 0x300
KIND, OPTIONS_OF_KIND = 1, 2
PARAMETERS, RATE64, CEIL64 = 1, 6, 7
ETHERNET = 1
TICK_S = 64e-9
"""The unit in which the kernel counts bursts."""
ROOT = 0x10000
"""The handle 1: of the queue that the classes belong to."""
AT_ONCE = 50
"""Changes that are sent together: their answers have to fit into the socket's buffer."""
ANSWER_S = 20.0
MOST_BYTES = 2**18


@dataclass(frozen=True)
class ClassRate:
    """The rate of one class, and what may pass at once after a rest."""

    rate_bps: float
    burst_bytes: int
    quantum_bytes: int


class HtbClasses:
    """The classes of HTB on one interface, in the network namespace of whoever opens it."""

    def __init__(self, interface: str) -> None:
        self._index = socket.if_nametoindex(interface)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(ANSWER_S)
        self._number = 0

    def change(self, rates: Mapping[int, ClassRate]) -> None:
        """Set the rates of classes that are there, by minor number; an OSError if one fails."""
        messages = [
            self._message(NEW_CLASS, REQUEST | ACKNOWLEDGE, ROOT | minor, _parameters(rate))
            for minor, rate in rates.items()
        ]
        for start in range(0, len(messages), AT_ONCE):
            failed = 0
            for _, body in self._answers(messages[start : start + AT_ONCE]):
                failed = failed or -struct.unpack_from("=i", body)[0]
            if failed:
                raise OSError(failed, os.strerror(failed))

    def rates_bps(self) -> dict[int, float]:
        """The rate of every class as the kernel has it, by minor number."""
        found: dict[int, float] = {}
        for kind, body in self._answers([self._message(GET_CLASS, REQUEST | DUMP, 0, b"")]):
            if kind == ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, os.strerror(number))
            if kind == NEW_CLASS:
                found[SUBJECT.unpack_from(body)[2] & 0xFFFF] = _rate_bps(body[SUBJECT.size :])
        return found

    def _answers(self, messages: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """The kinds and bodies of what the kernel answers; each message ends with one of two kinds.

        What still comes of earlier messages, whose answers were late, is left out.
        """
        self._socket.send(b"".join(messages))
        unanswered = {HEADER.unpack_from(message)[3] for message in messages}
        while unanswered:
            data = self._socket.recv(MOST_BYTES)
            while len(data) >= HEADER.size:
                length, kind, _, number, _ = HEADER.unpack_from(data)
                if number in unanswered:
                    yield kind, data[HEADER.size : length]
                    if kind in (ERROR, DONE):
                        unanswered.discard(number)
                data = data[_aligned(length) :]

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _message(self, kind: int, flags: int, handle: int, rest: bytes) -> bytes:
        self._number += 1
        body = SUBJECT.pack(socket.AF_UNSPEC, self._index, handle, ROOT if rest else 0, 0) + rest
        return HEADER.pack(HEADER.size + len(body), kind, flags, self._number, 0) + body


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        if length < ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[ATTRIBUTE.size : length]
        data = data[_aligned(length) :]
    return found


def _parameters(given: ClassRate) -> bytes:
    """The attributes of a class whose rate is also the most that it may borrow."""
    bytes_per_s = max(int(given.rate_bps / 8), 1)
    rate = RATE.pack(0, ETHERNET, 0, 0, 0, min(bytes_per_s, 2**32 - 1))
    burst = int(given.burst_bytes / bytes_per_s / TICK_S)
    options = OPTIONS.pack(rate, rate, burst, burst, given.quantum_bytes, 0, 0)
    own = _attribute(PARAMETERS, options)
    if bytes_per_s >= 2**32:
        whole = struct.pack("=Q", bytes_per_s)
        own += _attribute(RATE64, whole) + _attribute(CEIL64, whole)
    return _attribute(KIND, b"htb\0") + _attribute(OPTIONS_OF_KIND, own)


def _rate_bps(data: bytes) -> float:
    """The rate in the attributes of a class."""
    own = _attributes(_attributes(data).get(OPTIONS_OF_KIND, b""))
    if RATE64 in own:
        return 8.0 * float(struct.unpack_from("=Q", own[RATE64])[0])
    if PARAMETERS not in own:
        return 0.0
    rate, *_ = OPTIONS.unpack_from(own[PARAMETERS])
    return 8.0 * float(RATE.unpack(rate)[5])
