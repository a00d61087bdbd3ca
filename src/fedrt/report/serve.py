"""`fedrt watch`: serves the page on a local address and follows folders; it only reads."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.report.page.cache import Cache
from fedrt.report.page.collect import collect
from fedrt.report.page.encode import page_json
from fedrt.report.page.sources import signature
from fedrt.report.page.write import page_text
from fedrt.system.inputs import read_bytes

LOOPBACK = ("127.0.0.1", "localhost", "::1")
LOOK_EVERY_S = 0.3
MOST_OF_THE_TIME = 0.1
"""The greatest share of the time that reading the folders may take."""
MOST_FIGURE = 64 * 2**20
"""The greatest size of a figure in bytes."""
WAITING = 1024
"""The number of requests that may wait at once."""
KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".pdf": "application/pdf"}
FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class Watched:
    """The newest data of the folders, made once for all viewers."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self.figures: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._seen: object = None
        self._look_again_at = 0.0
        self._cache = Cache()
        self._text = b""
        self._tag = ""

    def data(self) -> tuple[bytes, str]:
        """The data as JSON, and a tag that changes with them."""
        with self._lock:
            if time.monotonic() >= self._look_again_at:
                began, seen = time.monotonic(), signature(self.paths)
                if seen != self._seen:
                    self._text = page_json(self._collect(seen)).encode()
                    self._tag = f'"{hashlib.sha256(self._text).hexdigest()[:32]}"'
                    self._seen = seen
                took_s = time.monotonic() - began
                self._look_again_at = began + max(LOOK_EVERY_S, took_s / MOST_OF_THE_TIME)
            return self._text, self._tag

    def _collect(self, seen: Sequence[tuple[str, int, int]]) -> dict[str, Any]:
        try:
            data = collect(self.paths, self._cache)
        except InputError as error:
            # What is watched may vanish and come back: say so and look again.
            return {"problems": error.lines}
        newest = max((changed for _, changed, _ in seen), default=0)
        data["progress"]["written_at_s"] = newest / 1e9
        self.figures = {
            f"figure/{i}/{Path(name).name}": Path(name) for i, name in enumerate(data["figures"])
        }
        data["figures"] = [
            {"name": str(path), "address": address} for address, path in self.figures.items()
        ]
        return data


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the page, its data and its figures."""

    protocol_version = "HTTP/1.1"
    server_version = "fedrt"
    timeout = 60
    server: Server

    def do_GET(self) -> None:
        if not self._host_is_ours():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, b"not a name of this page\n", "text/plain")
            return
        address = self.path.partition("?")[0].lstrip("/")
        watched = self.server.watched
        if address == "":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif address == "data.json":
            text, tag = watched.data()
            if self.headers.get("If-None-Match") == tag:
                self._send(HTTPStatus.NOT_MODIFIED, b"", "application/json", {"ETag": tag})
            else:
                now = {"ETag": tag, "X-Now": f"{time.time():.3f}"}
                self._send(HTTPStatus.OK, text, "application/json", now)
        elif address in watched.figures:
            self._send_figure(watched.figures[address])
        else:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such thing here\n", "text/plain")

    do_HEAD = do_GET  # noqa: N815 (the name that the library calls)

    def _send_figure(self, path: Path) -> None:
        try:
            text = read_bytes(path, MOST_FIGURE, follow=False)
        except (OSError, InputError):
            self._send(HTTPStatus.NOT_FOUND, b"it is gone\n", "text/plain")
            return
        # Browsers show no PDF in a sandbox of ours; they have one of their own for it.
        policy = {} if path.suffix == ".pdf" else {"Content-Security-Policy": FIGURE_POLICY}
        self._send(HTTPStatus.OK, text, KINDS[path.suffix], policy)

    def _send(
        self, status: HTTPStatus, text: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        extra = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        for name, value in {"Content-Type": kind, **extra, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _host_is_ours(self) -> bool:
        """Whether the request names this host; on loopback, other names are refused."""
        if self.server.host not in LOOPBACK:
            return True
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        return name.strip("[]") in LOOPBACK

    def log_message(self, *args: Any) -> None:
        """Log nothing: the terminal shows the address only."""


class Server(ThreadingHTTPServer):
    """Serves the page to any number of viewers until it is closed."""

    daemon_threads = True
    request_queue_size = WAITING
    allow_reuse_address = True

    def __init__(self, paths: Sequence[Path], host: str, port: int) -> None:
        self.watched = Watched(paths)
        self.host = host
        title = ", ".join(path.name for path in paths)
        self.page = page_text(title, "null", watch="data.json").encode("utf-8", "replace")
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InputError(f"{host}, port {port}: cannot be used: {reason(error)}") from None

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.host}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore viewers who disconnect."""
