"""`/healthz` and `/metrics` of a party, over plain HTTP, by default on loopback alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from fedrt.errors import InputError
from fedrt.system.extras import need

log = logging.getLogger(__name__)

Numbers = Callable[[], Mapping[str, float]]
"""The numbers of a party by their names; what a name means is in `MEANING`."""
MEANING = {
    "connected": "1 while the device is connected to its edge server",
    "connected_devices": "devices that are connected",
    "answering_edges": "edge servers that answer",
    "global_round": "the global round of the last order, from 1",
    "updates_counted_total": "updates that were averaged",
    "updates_refused_total": "updates that were refused",
    "bytes_received_total": "bytes of updates and models that came in",
    "orders_total": "orders that were carried out",
    "train_seconds": "seconds of the last local training",
    "round_seconds": "seconds of the last edge round, for a coordinator global round",
    "predicted_round_seconds": "the same as the plan predicted it",
}
REQUEST_S, MOST_REQUEST = 5.0, 8192
LOOPBACK = "127.0.0.1"


def address_of(given: str) -> tuple[str, int]:
    """The host and port of HOST:PORT or PORT; a port alone is on loopback."""
    host, _, port = given.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 2**16:
        raise InputError(f"`metrics` {given!r}: must be PORT or HOST:PORT")
    return host or LOOPBACK, int(port)


class Metrics:
    """A small HTTP server with the health and the numbers of a party."""

    def __init__(self, party: str, numbers: Numbers) -> None:
        need("metrics", "prometheus_client")
        self.party, self.numbers = party, numbers
        self.server: asyncio.Server | None = None

    async def start(self, given: str) -> int:
        """Listen; return the port."""
        host, port = address_of(given)
        try:
            self.server = await asyncio.start_server(self._answer, host, port)
        except OSError as error:
            raise InputError(f"`metrics` {given!r}: cannot be listened on: {error}") from None
        found: int = self.server.sockets[0].getsockname()[1]
        log.info("metrics on http://%s:%d/metrics", host, found)
        return found

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            path = head[:MOST_REQUEST].split(b" ")[1:2]
            status, kind, body = self._page(path[0] if path else b"")
            top = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            writer.write(top.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()

    def _page(self, path: bytes) -> tuple[str, str, bytes]:
        if path == b"/healthz":
            return "200 OK", "text/plain", b"ok\n"
        if path == b"/metrics":
            from prometheus_client import CONTENT_TYPE_LATEST

            return "200 OK", CONTENT_TYPE_LATEST, self.text()
        return "404 Not Found", "text/plain", b"there are /healthz and /metrics\n"

    def text(self) -> bytes:
        """The numbers as Prometheus reads them."""
        from prometheus_client import CollectorRegistry, Gauge, generate_latest
        from prometheus_client.core import CounterMetricFamily

        registry = CollectorRegistry()
        totals = {n: v for n, v in self.numbers().items() if n.endswith("_total")}
        for name, value in self.numbers().items():
            if name not in totals:
                gauge = Gauge(f"fedrt_{name}", MEANING[name], ["party"], registry=registry)
                gauge.labels(self.party).set(value)

        class Totals:
            """Counters that the party keeps by itself."""

            @staticmethod
            def collect() -> list[CounterMetricFamily]:
                found = []
                for name, value in totals.items():
                    each = CounterMetricFamily(f"fedrt_{name}", MEANING[name], labels=["party"])
                    each.add_metric([self.party], value)
                    found.append(each)
                return found

        registry.register(Totals())
        return bytes(generate_latest(registry))

    @staticmethod
    async def maybe(given: str | None, party: str, numbers: Numbers) -> Metrics | None:
        """A server that has started, if an address is given."""
        if given is None:
            return None
        found = Metrics(party, numbers)
        await found.start(given)
        return found

    async def close(self) -> None:
        """Stop listening."""
        if self.server is not None:
            self.server.close()
            await self.server.wait_closed()
