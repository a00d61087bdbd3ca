"""Who may call which service, checked before every call and while calls are open."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import grpc
from cryptography import x509

from fedrt.devices.security.certificates import party_of
from fedrt.devices.security.files import Files
from fedrt.devices.security.limits import Limits
from fedrt.devices.security.party import Party
from fedrt.devices.security.rates import Rates

_log = logging.getLogger(__name__)
_caller: ContextVar[Party] = ContextVar("fedrt_caller")
Code = grpc.StatusCode
LINES_PER_S, LINES_AT_ONCE = 0.1, 3
"""How often one refusal is logged: whoever is refused a thousand times fills no disk."""


@dataclass(frozen=True)
class Access:
    """Who may call a service: the parties of one role, all of them or those with these names."""

    role: str
    names: frozenset[str] | None = None

    def allows(self, who: Party) -> bool:
        """Whether a party may call."""
        return who.role == self.role and (self.names is None or who.name in self.names)


class RefusedError(Exception):
    """Raised where a call is refused: the status of gRPC and one line for the caller."""

    def __init__(self, code: grpc.StatusCode, line: str) -> None:
        super().__init__(line)
        self.code = code
        self.line = line


class UnreadableMessageError(Exception):
    """Raised where bytes are no message of the kind that a method takes."""


@dataclass(frozen=True)
class Peer:
    """Who is at the other end of a connection."""

    party: Party
    certificate: x509.Certificate


class _Open:
    """A call that is being served."""

    def __init__(self, peer: Peer, task: asyncio.Task[Any]) -> None:
        self.peer = peer
        self.task = task
        self.refusal: str | None = None


class Gate:
    """Admits the calls of a server by the caller's certificate.

    `rules` says for each service, by its full name, who may call it; a service that is not named
    cannot be called. Give `interceptor` to `grpc.aio.server`: every call is then checked before
    its handler runs, and `caller()` says in the handler who it is. Certificates of open calls are
    checked again every few seconds, and a call is cancelled when its caller's expires or is
    revoked.
    """

    def __init__(
        self, files: Files, rules: Mapping[str, Access], limits: Limits | None = None
    ) -> None:
        self._rules = dict(rules)
        self._limits = limits or Limits()
        self._trust = files.trust()
        self._open: set[_Open] = set()
        self._count: Counter[Party] = Counter()
        self._rates = Rates(self._limits.calls_per_s, self._limits.burst)
        self._lines = Rates(LINES_PER_S, LINES_AT_ONCE)
        self._recheck: asyncio.Task[None] | None = None
        self.interceptor = _Interceptor(self)

    async def admit(self, context: grpc.aio.ServicerContext, service: str) -> Party:
        """Who calls; ends the call with one clear line if it may not use the service."""
        return (await self._admitted(context, service)).party

    @asynccontextmanager
    async def call(self, context: grpc.aio.ServicerContext, service: str) -> AsyncIterator[None]:
        """Admit a call and watch over it while the block runs, which serves it."""
        peer = await self._admitted(context, service)
        task = asyncio.current_task()
        assert task is not None
        mine = _Open(peer, task)
        self._open.add(mine)
        self._count[peer.party] += 1
        _caller.set(peer.party)
        self._watch()
        try:
            yield
        except asyncio.CancelledError:
            if mine.refusal is None:
                raise
            await context.abort(Code.PERMISSION_DENIED, f"{peer.party}: {mine.refusal}")
        except UnreadableMessageError:
            line = f"{peer.party}: sent a message that cannot be read"
            if self._lines.take(line):
                _log.info("%s", line)
            await context.abort(Code.INVALID_ARGUMENT, line)
        finally:
            self._open.discard(mine)
            self._count[peer.party] -= 1
            if not self._count[peer.party]:
                del self._count[peer.party]

    async def _admitted(self, context: grpc.aio.ServicerContext, service: str) -> Peer:
        try:
            return self._check(context.auth_context(), service)
        except RefusedError as refused:
            if self._lines.take(refused.line):
                _log.info("refused %s: %s", context.peer(), refused.line)
            await context.abort(refused.code, refused.line)
        raise AssertionError("abort raises")

    def _check(self, connection: Mapping[str, list[bytes]], service: str) -> Peer:
        """The peer of a connection; raises a refusal if it may not call the service."""
        if connection.get("ssl_tls_version") != [b"TLSv1.3"]:
            raise RefusedError(Code.UNAUTHENTICATED, "connection: must be TLS 1.3")
        texts = connection.get("x509_pem_cert", [])
        peer = _peer(bytes(texts[0])) if len(texts) == 1 else None
        if peer is None:
            raise RefusedError(Code.UNAUTHENTICATED, "certificate: must name one party of a run")
        who = peer.party
        self._trust.refresh()
        if refusal := self._trust.refusal(peer.certificate):
            raise RefusedError(Code.UNAUTHENTICATED, f"{who}: {refusal}")
        rule = self._rules.get(service)
        if rule is None or not rule.allows(who):
            raise RefusedError(Code.PERMISSION_DENIED, f"{who}: may not call {service} here")
        if self._count[who] >= self._limits.calls_per_caller:
            line = f"{who}: has {self._limits.calls_per_caller} calls open, the most there may be"
            raise RefusedError(Code.RESOURCE_EXHAUSTED, line)
        if not self._rates.take(who):
            line = f"{who}: calls more than {self._limits.calls_per_s:g} times a second"
            raise RefusedError(Code.RESOURCE_EXHAUSTED, line)
        return peer

    def _watch(self) -> None:
        """Check open calls again now and then, as long as there are any."""
        if self._recheck is None or self._recheck.done():
            self._recheck = asyncio.create_task(self._check_again())

    async def _check_again(self) -> None:
        while self._open:
            await asyncio.sleep(self._limits.recheck_s)
            self._trust.refresh()
            for each in list(self._open):
                each.refusal = each.refusal or self._trust.refusal(each.peer.certificate)
                if each.refusal is not None:
                    _log.info("cut off %s: %s", each.peer.party, each.refusal)
                    each.task.cancel()


def caller() -> Party:
    """Who has made the call that is being served; for handlers behind a gate."""
    return _caller.get()


@lru_cache(maxsize=8192)
def _peer(text: bytes) -> Peer | None:
    """Whom a certificate names; None where that is no party of ours."""
    try:
        certificate = x509.load_pem_x509_certificate(text)
    except ValueError:
        return None
    who = party_of(certificate)
    return None if who is None else Peer(who, certificate)


Reader = Callable[[bytes], Any]
Handler = Any
"""A method's handler of gRPC, which has no types."""


class _Interceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Puts a gate before every method of a server."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Handler]], details: Any
    ) -> Handler:
        handler = await continuation(details)
        if handler is None:
            return None
        service = details.method.split("/")[1]
        kind = f"{_word(handler.request_streaming)}_{_word(handler.response_streaming)}"
        read: Reader | None = _reader(handler.request_deserializer)
        if handler.request_streaming:
            guarded = _guarded(self._gate, service, getattr(handler, kind), None)
        else:  # read behind the gate: nothing is made of what a stranger sends
            guarded, read = _guarded(self._gate, service, getattr(handler, kind), read), None
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(guarded, read, handler.response_serializer)


def _word(streaming: bool) -> str:
    return "stream" if streaming else "unary"


def _reader(read: Reader | None) -> Reader:
    """A function that makes a message of bytes, with one kind of error."""

    def reading(text: bytes) -> Any:
        try:
            return text if read is None else read(text)
        except Exception as error:
            raise UnreadableMessageError from error

    return reading


def _guarded(
    gate: Gate, service: str, serve: Callable[[Any, Any], Any], read: Reader | None
) -> Callable[..., Any]:
    """The function that serves a method, behind a gate; it is of the same kind."""

    async def answer(request: Any, context: Any) -> Any:
        async with gate.call(context, service):
            return await serve(read(request) if read else request, context)

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        async with gate.call(context, service):
            async for each in serve(read(request) if read else request, context):
                yield each

    return stream if inspect.isasyncgenfunction(serve) else answer
