"""An authority with certificates for every party, made in milliseconds, and calls over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from fedrt.devices.security import Files, Gate, Limits, Party, server_credentials
from fedrt.devices.security.authority import (
    Authority,
    enrol_party,
    make_authority_folder,
)
from fedrt.devices.security.certificates import PEM, make_certificate, now
from fedrt.devices.security.pem import read_certificate, read_key, read_pem, write_pem
from support.children import LIMIT_S

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2


@dataclass
class Site:
    """An authority, and a folder with files for every party that was asked for."""

    folder: Path
    _parties: dict[Party, Files] = field(default_factory=dict)

    @property
    def authority(self) -> Authority:
        return Authority(self.folder / "ca")

    def files(self, role: str, name: str) -> Files:
        """The files of a party, signed when they are first asked for."""
        who = Party(role, name)
        if who not in self._parties:
            place = self.folder / f"{role}-{name}"
            enrol_party(self.authority, who, place)
            self._parties[who] = Files.in_folder(place, name)
        return self._parties[who]

    def expired(self, role: str, name: str) -> Files:
        """The files of a party whose certificate ended a minute ago."""
        files = self.files(role, name)
        self.sign_again(files, until=now() - timedelta(minutes=1))
        return files

    def sign_again(self, files: Files, **changed: Any) -> None:
        """Replace a party's certificate by one that the authority would not have made."""
        asked: dict[str, Any] = {
            "party": files.party(),
            "public_key": read_key(files.key).public_key(),
            "generation": 0,
            "hosts": [],
            "until": now() + timedelta(days=1),
        }
        asked |= changed
        ca = self.folder / "ca"
        made = make_certificate(read_certificate(ca / "ca.pem"), read_key(ca / "ca.key"), **asked)
        write_pem(files.certificate, made.public_bytes(PEM))

    def renew(self, role: str, name: str) -> Files:
        """Sign a party's certificate again, for the key it has."""
        files = self.files(role, name)
        public = read_key(files.key).public_key()
        made = self.authority.sign(files.party(), public)
        write_pem(files.certificate, made.public_bytes(PEM))
        return files

    def revoke(self, name: str) -> None:
        """Revoke a party's certificates, and bring the new list to every party."""
        self.authority.revoke(name)
        for files in self._parties.values():
            assert files.revoked is not None
            write_pem(files.revoked, read_pem(self.folder / "ca" / "revoked.pem"))


def make_site(folder: Path, after: Path | None = None) -> Site:
    """A new authority in a folder, perhaps in the place of another."""
    make_authority_folder(folder / "ca", name="test authority", days=3650, after=after)
    return Site(folder)


class Echo(grpc.GenericRpcHandler):
    """Every service there is, with three methods: each sends back what it gets."""

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        if method == "Say":
            return grpc.unary_unary_rpc_method_handler(_say)
        if method == "Talk":
            return grpc.stream_stream_rpc_method_handler(_talk)
        if method == "Read":
            return grpc.stream_stream_rpc_method_handler(_read)
        return None


async def _say(request: bytes, context: Any) -> bytes:
    return request


async def _talk(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for each in requests:
        yield each


async def _read(requests: AsyncIterator[bytes], context: Any) -> None:
    """As Talk, in gRPC's other way of writing a handler."""
    while (each := await context.read()) is not grpc.aio.EOF:
        await context.write(each)


@asynccontextmanager
async def serving(
    files: Files,
    rules: Mapping[str, Any],
    limits: Limits | None = None,
    credentials: Any = None,
) -> AsyncIterator[str]:
    """The address of a server on this machine that sends everything back, behind a gate.

    `credentials` are others than the files'.
    """
    limits = limits or Limits()
    gate = Gate(files, rules, limits)
    server = grpc.aio.server(interceptors=[gate.interceptor], options=limits.server_options())
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_secure_port("127.0.0.1:0", credentials or server_credentials(files))
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def say(channel: grpc.aio.Channel, service: str, message: bytes = b"hello") -> bytes:
    """Call a service once and return its answer."""
    return await channel.unary_unary(f"/{service}/Say")(message, timeout=LIMIT_S)


async def refusal(channel: grpc.aio.Channel, service: str, message: bytes = b"hello") -> Any:
    """The error with which a call ends; it must end with one."""
    try:
        answer = await say(channel, service, message)
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"answered {answer!r}")


def posing(files: Files) -> Any:
    """Credentials of a server with files that no server of ours would take."""
    pair = read_pem(files.key), read_pem(files.certificate)
    return grpc.ssl_server_credentials([pair], read_pem(files.ca), True)


def unchecked_channel(address: str, files: Files, expect: Party) -> grpc.aio.Channel:
    """A channel with files that no client of ours would take."""
    credentials = grpc.ssl_channel_credentials(
        read_pem(files.ca), read_pem(files.key), read_pem(files.certificate)
    )
    options = [("grpc.ssl_target_name_override", expect.host_name(0))]
    return grpc.aio.secure_channel(address, credentials, options)


def within(work: Any) -> Any:
    """Run a coroutine, and end it if it hangs."""
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))
