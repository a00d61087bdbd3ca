"""TLS credentials of servers and channels to servers, verified by role and name."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import grpc

from fedrt.devices.security.files import Files
from fedrt.devices.security.limits import Limits, Options
from fedrt.devices.security.party import Party
from fedrt.devices.security.pem import read_pem
from fedrt.errors import FedrtError, InputError, one_line
from fedrt.validation import shown

T = TypeVar("T")
_log = logging.getLogger(__name__)
_MEANINGS = (
    ("Hostname Verification", "shows the certificate of another party, or one that was revoked"),
    ("certificate purpose", "shows a certificate that is no edge server's"),
    ("issuer certificate", "shows the certificate of another authority"),
    ("certificate signature", "shows the certificate of another authority"),
    ("certificate has expired", "shows a certificate that has expired"),
    ("not yet valid", "shows a certificate that is not valid yet; are the clocks right?"),
    ("CERTIFICATE_VERIFY_FAILED", "shows a certificate that cannot be verified"),
    ("Socket closed", "closes the connection: it is full, or does not take our certificate"),
    ("Connection refused", "cannot be reached: nobody listens there"),
    ("not found", "cannot be reached: no such host"),
)
"""What gRPC says when no connection comes about, and what that means, the first that fits."""
RECHECK_S = Limits.recheck_s
"""How often a client looks whether the server of an open call was revoked."""
LAST_CALLS_S = 600.0
"""For calls on a channel that another has taken the place of, after a change of files."""
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def server_credentials(files: Files) -> grpc.ServerCredentials:
    """Credentials of a server that takes only clients with a certificate of the authority.

    The files are read again when they change, so that a server goes on with a new certificate
    without being started anew: new connections have it, open ones stay as they are.
    """
    files.check()
    reload = _Reload(files)
    return grpc.dynamic_ssl_server_credentials(
        reload.configuration(), reload, require_client_authentication=True
    )


class _Reload:
    """The current certificate of a server: called for every handshake, from threads of gRPC."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._stamps = files.stamps()

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        pair = read_pem(self._files.key), read_pem(self._files.certificate)
        return grpc.ssl_server_certificate_configuration([pair], read_pem(self._files.ca))

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        """A new configuration if a file has changed; None: go on with the one before."""
        with self._lock:
            stamps = self._files.stamps()
            if stamps == self._stamps:
                return None
            self._stamps = stamps
            try:
                self._files.check()
                return self.configuration()
            except InputError as error:  # half of them is written: the next change brings the rest
                _log.warning("%s; the certificate before stays in use", error.report())
                return None


def server_name(files: Files, expect: Party) -> str:
    """The name by which TLS verifies a server: its role and name, and what was revoked of it."""
    return expect.host_name(files.trust().generation(expect))


async def until_revoked(files: Files, expect: Party, every_s: float) -> None:
    """Return when a server's certificate is revoked: open calls to it are then to be ended."""
    trust = files.trust()
    generation = trust.generation(expect)
    while trust.generation(expect) == generation:
        await asyncio.sleep(every_s)
        trust.refresh()


AGAIN: Options = [
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
"""How soon a channel tries again to reach a server that was not there: gRPC alone waits for up to
two minutes, in which a neighbour that was started late would be taken for one that is cut off."""


def check_address(address: str) -> str:
    """A server's address, HOST:PORT; an error if it is none."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 2**16:
        raise InputError(f"address {shown(address)}: must be HOST:PORT, or [IPV6]:PORT")
    return address


def open_channel(
    address: str,
    files: Files,
    expect: Party,
    options: Options | None = None,
    limits: Limits | None = None,
) -> grpc.aio.Channel:
    """A channel to a server that must be the party `expect`, wherever its address leads.

    The address plays no part in this: TLS asks for a certificate with the party's role and name.
    `options` are further ones of gRPC.
    """
    files.check()
    credentials = grpc.ssl_channel_credentials(
        read_pem(files.ca), read_pem(files.key), read_pem(files.certificate)
    )
    verified: Options = [("grpc.ssl_target_name_override", server_name(files, expect))]
    return grpc.aio.secure_channel(
        check_address(address),
        credentials,
        options=[*(limits or Limits()).channel_options(), *AGAIN, *(options or []), *verified],
    )


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks that make calls, and wait until they have closed what they had open.

    A call that is left behind lives on until Python's garbage collector finds it, in any thread,
    perhaps after the end of its event loop.
    """
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class RevokedServerError(FedrtError):
    """The certificate of a server was revoked while a call to it was open."""


class Channels:
    """Channels to servers, made anew when certificates or the list of revoked ones change."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._held: dict[tuple[Party, str], tuple[Any, grpc.aio.Channel]] = {}
        self._watches: dict[Party, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def to(self, expect: Party, address: str) -> grpc.aio.Channel:
        """The channel to a server that must be the party `expect`."""
        key, stamps = (expect, address), self._files.stamps()
        held = self._held.get(key)
        if held is None or held[0] != stamps:
            made = open_channel(address, self._files, expect)
            if held is not None:  # calls that are open may end
                closing = asyncio.create_task(held[1].close(LAST_CALLS_S))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            held = self._held[key] = (stamps, made)
        return held[1]

    async def guarded(self, expect: Party, work: Coroutine[Any, Any, T]) -> T:
        """The result of a call; an error once the server's certificate is revoked meanwhile."""
        watch = self._watches.get(expect)
        if watch is None or watch.done():
            watch = asyncio.create_task(until_revoked(self._files, expect, RECHECK_S))
            self._watches[expect] = watch
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise RevokedServerError(f"{expect}: certificate was revoked")
        finally:
            await ended(task)

    async def close(self) -> None:
        """Close all channels."""
        await ended(*self._watches.values(), *self._closing)
        for _, channel in self._held.values():
            await channel.close()


def why_unavailable(error: grpc.aio.AioRpcError, expect: Party) -> str:
    """One line about a call that failed: what the server has answered, or why there is none."""
    said = one_line(error.details() or "")
    if error.code() != grpc.StatusCode.UNAVAILABLE:
        return f"{expect}: {said or error.code().name}"
    found = next((meaning for sign, meaning in _MEANINGS if sign in said), None)
    return f"{expect}: {found or f'cannot be reached: {said}'}"
