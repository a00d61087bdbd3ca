"""Calls to a process of one's own over a socket: a name and values there, a value or an error back.

Values are pickled, large arrays and buffers beside that as they are. Both ends are the same
program on the same machine; nothing that another party sent is ever unpickled.
"""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

import numpy as np

from fedrt.errors import FedrtError, InputError, MessageError

COUNT, LENGTH = struct.Struct("<I"), struct.Struct("<Q")
KINDS = {kind.__name__: kind for kind in (FedrtError, InputError, MessageError)}


class ClosedLineError(Exception):
    """Raised where the other end has gone."""


def send(line: socket.socket, value: Any) -> None:
    """Send a value, waiting until it is on its way; buffers in it are released.

    An error keeps the frames that it came through, and with them what was sent. Until 3.12.6,
    Python crashes when its garbage collector finds a memoryview in such a cycle that a buffer still
    looks into (issue 77894 of CPython).
    """
    buffers: list[pickle.PickleBuffer] = []
    parts: list[memoryview] = []
    try:
        body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        parts += [memoryview(body), *(each.raw() for each in buffers)]
        lengths = b"".join(LENGTH.pack(len(part)) for part in parts)
        line.sendall(COUNT.pack(len(parts)) + lengths)
        for part in parts:
            line.sendall(part)
    except OSError:
        raise ClosedLineError from None
    finally:
        for part in parts:
            part.release()
        for each in buffers:
            each.release()


def receive(line: socket.socket) -> Any:
    """The next value from the other end."""
    (count,) = COUNT.unpack(_exactly(line, COUNT.size))
    lengths = _exactly(line, count * LENGTH.size)
    body, *buffers = [_exactly(line, length) for (length,) in LENGTH.iter_unpack(lengths)]
    return pickle.loads(body, buffers=buffers)


def _exactly(line: socket.socket, length: int) -> memoryview:
    found = np.empty(length, dtype=np.uint8).data
    have = 0
    while have < length:
        try:
            came = line.recv_into(found[have:])
        except OSError:
            came = 0
        if not came:
            raise ClosedLineError
        have += came
    return found


def told_error(error: Exception) -> dict[str, Any]:
    """What the other end is to be told of an error, which cannot always be sent."""
    if not isinstance(error, FedrtError):
        return {"failed": f"{type(error).__name__}: {error}"}
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in KINDS)
    return {"error": kind, "lines": error.lines}


def value_of(answer: dict[str, Any]) -> Any:
    """The value in an answer; raises the error that it tells of."""
    if "error" in answer:
        raise KINDS[answer["error"]](answer["lines"])
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer["value"]
