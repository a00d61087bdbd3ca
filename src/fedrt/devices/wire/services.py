"""The three services of an edge server, as handlers and as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import grpc

from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.raw import IN_PIECE, IN_STREAM, reader, writer
from fedrt.errors import one_line

NOT_JOINED = grpc.StatusCode.ABORTED
"""The answer of an edge server that has been started anew, and was not asked to join the run."""

LED = grpc.StatusCode.ALREADY_EXISTS
"""The answer of an edge server to a coordinator while another one leads it."""
SESSION = "fedrt-session"
"""The metadata in which each call of a coordinator names its process."""

WRONG_PEER = grpc.StatusCode.DATA_LOSS
"""The answer where another edge server has sent what cannot be used: asking again is no use."""


LOST_STATE = grpc.StatusCode.NOT_FOUND
"""The answer of an edge server that does not have the state it is to start from."""
CANNOT_WRITE = grpc.StatusCode.OUT_OF_RANGE
"""The answer of an edge server that cannot write what it has to, as its disk is full."""


class CallKind(NamedTuple):
    """One method of a service: what it takes and returns, and which of these are streams."""

    request: Any
    response: Any
    streams_in: bool = False
    streams_out: bool = False


DEVICES = {"Attend": CallKind(pb.FromDevice, pb.ToDevice, streams_in=True, streams_out=True)}
PEERS = {"Fetch": CallKind(pb.Fetch, pb.Piece, streams_out=True)}
ORDERS = {
    "Lead": CallKind(pb.Question, pb.Nothing, streams_out=True),
    "Ask": CallKind(pb.Question, pb.Answer),
    "Train": CallKind(pb.TrainOrder, pb.TrainReport),
    "Mix": CallKind(pb.MixOrder, pb.MixReport),
    "Measure": CallKind(pb.DistanceOrder, pb.DistanceReport),
    "Model": CallKind(pb.ModelQuestion, pb.Piece, streams_out=True),
    "Restore": CallKind(pb.Restore, pb.Nothing, streams_in=True),
}
CHUNK_FIELDS = {
    pb.FromDevice: IN_STREAM,
    pb.ToDevice: IN_STREAM,
    pb.Piece: IN_PIECE,
    pb.Restore: IN_PIECE,
}
"""The messages that may be a chunk of a payload, and the number of that field."""
SERVICES = {"Devices": DEVICES, "Peers": PEERS, "Orders": ORDERS}


def handlers(service: str, given: Mapping[str, Any]) -> Any:
    """The handlers of a service; `given` has a coroutine for each of its methods."""
    found = {}
    for name, method in SERVICES[service].items():
        kinds = ("stream" if each else "unary" for each in (method.streams_in, method.streams_out))
        make = getattr(grpc, "{}_{}_rpc_method_handler".format(*kinds))
        found[name] = make(
            given[name],
            request_deserializer=_reader(method.request),
            response_serializer=writer(method.response),
        )
    return grpc.method_handlers_generic_handler(f"fedrt.v1.{service}", found)


def call(channel: Any, service: str, name: str) -> Any:
    """A method of a service at the other end of a channel."""
    method = SERVICES[service][name]
    kinds = ("stream" if each else "unary" for each in (method.streams_in, method.streams_out))
    return getattr(channel, "_".join(kinds))(
        f"/fedrt.v1.{service}/{name}",
        request_serializer=writer(method.request),
        response_deserializer=_reader(method.response),
    )


def _reader(kind: Any) -> Any:
    return reader(kind, CHUNK_FIELDS[kind]) if kind in CHUNK_FIELDS else kind.FromString


def reason_of(error: Exception) -> str:
    """An error of a call in one line."""
    if isinstance(error, grpc.aio.AioRpcError):
        code = error.code().name.lower().replace("_", " ")
        return f"{code}: {one_line(error.details() or '')}"
    return one_line(str(error))
