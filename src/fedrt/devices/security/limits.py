"""Limits of a server against callers that ask for too much, and the options that gRPC takes."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

Options = list[tuple[str, int | str]]
FRAME_BYTES, WRITE_BYTES = 4 * 2**20, 2**20
"""The longest frame of HTTP/2 that a side takes, and what a stream writes ahead; with gRPC's own,
16 kB and 64 kB, a large model takes longer. A call takes `message_bytes` at most, as ever."""
OTHER_FILES = 256
"""Open files of a process beside its connections."""


@dataclass(frozen=True)
class Limits:
    """What one server takes on at most."""

    message_bytes: int = 4 * 2**20
    """One message; a longer one ends its call. Models travel in chunks."""
    metadata_bytes: int = 8 * 2**10
    """What a call says beside its messages."""
    connections: int = 4096
    """Open at once, those counted whose handshake is not done; further ones are closed."""
    calls_per_connection: int = 32
    calls_per_caller: int = 16
    """Open at once by one party, over all of its connections."""
    calls_per_s: float = 20.0
    """New calls of one party, on average."""
    burst: int = 40
    """New calls of one party at once."""
    handshake_s: float = 10.0
    """Until TLS and HTTP/2 are agreed on; who is slower is cut off."""
    idle_s: float = 300.0
    """A connection without a call is closed after this."""
    ping_s: float = 20.0
    """After so long a silence a connection is asked for a sign of life."""
    unreachable_s: float = 20.0
    """A machine that does not acknowledge any packet for so long is taken for gone."""
    stalled_s: float = 600.0
    """A process that does not answer for so long is taken for gone. Its answer stands in a queue
    behind what is being uploaded: on a slow link minutes may pass."""
    recheck_s: float = 2.0
    """How often the certificates of open calls are checked again."""

    def for_this_process(self) -> Limits:
        """These limits, with no more connections than the process may have open files.

        The process's own limit is raised for them as far as the system lets it.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = self.connections + OTHER_FILES
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return replace(self, connections=max(1, most - OTHER_FILES))

    def server_options(self) -> Options:
        """The options of `grpc.aio.server`."""
        return [
            *self._shared(),
            ("grpc.so_reuseport", 0),  # nobody else may listen on the same port
            ("grpc.max_allowed_incoming_connections", self.connections),
            ("grpc.max_concurrent_streams", self.calls_per_connection),
            ("grpc.server_handshake_timeout_ms", _ms(self.handshake_s)),
            ("grpc.max_connection_idle_ms", _ms(self.idle_s)),
            ("grpc.http2.min_ping_interval_without_data_ms", _ms(self.ping_s / 2)),
        ]

    def channel_options(self) -> Options:
        """The options of a channel to such a server."""
        return [
            *self._shared(),
            ("grpc.enable_http_proxy", 0),  # never by way of what the environment names
            ("grpc.service_config_disable_resolution", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ]

    def _shared(self) -> Options:
        return [
            ("grpc.max_receive_message_length", self.message_bytes),
            ("grpc.max_send_message_length", self.message_bytes),
            ("grpc.http2.max_frame_size", FRAME_BYTES),
            ("grpc.http2.write_buffer_size", WRITE_BYTES),
            ("grpc.max_metadata_size", self.metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.metadata_bytes),
            ("grpc.keepalive_time_ms", _ms(self.ping_s)),
            ("grpc.keepalive_timeout_ms", _ms(self.unreachable_s)),  # TCP_USER_TIMEOUT
            ("grpc.http2.ping_timeout_ms", _ms(self.stalled_s)),
            ("grpc.keepalive_permit_without_calls", 1),
        ]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
