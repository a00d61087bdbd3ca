"""Callers that ask for too much: large messages, slow clients, floods, old TLS."""

from __future__ import annotations

import asyncio
import random
import selectors
import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest
from support.children import LIMIT_S, environment
from support.enrolment import refusal, say, serving, within
from support.paths import ROOT

from fedrt.devices.security import Access, Limits, Party, open_channel
from fedrt.devices.security.limits import OTHER_FILES
from fedrt.devices.security.rates import MOST_BUCKETS, Rates

# isort: split
import grpc

EDGE = Party("edge", "edge-0")
RULES = {"t.Devices": Access("device")}
Code = grpc.StatusCode
FLOOD = 500


def connect(address: str, stack: ExitStack) -> socket.socket:
    """A connection that says nothing, closed with the stack."""
    host, _, port = address.partition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_S))


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side closes a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def with_server(site, limits, work):
    """Run `work(address, channel)` with a server and a device that is connected to it."""

    async def run():
        async with (
            serving(site.files("edge", "edge-0"), RULES, limits) as address,
            open_channel(address, site.files("device", "device-0"), EDGE, limits=Limits()) as good,
        ):
            first = good.unary_unary("/t.Devices/Say")
            assert await first(b"first", timeout=LIMIT_S, wait_for_ready=True) == b"first"
            await work(address, good)
            assert await say(good, "t.Devices") == b"hello"

    within(run())


def test_a_message_over_the_limit_ends_its_call_alone(site):
    limits = Limits(message_bytes=100_000)

    async def work(address, channel):
        assert len(await say(channel, "t.Devices", bytes(99_000))) == 99_000
        error = await refusal(channel, "t.Devices", bytes(100_001))
        assert error.code() == Code.RESOURCE_EXHAUSTED

    with_server(site, limits, work)


def test_metadata_over_the_limit_is_refused(site):
    async def work(address, channel):
        call = channel.unary_unary("/t.Devices/Say")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", metadata=[("x", "y" * 20_000)], timeout=LIMIT_S)
        assert caught.value.code() == Code.RESOURCE_EXHAUSTED

    with_server(site, None, work)


def test_silent_and_slow_clients_hold_up_nobody_and_are_cut_off(site):
    """Clients that say nothing, a byte at a time, or nothing more once TLS is agreed on."""
    limits = Limits(handshake_s=3.0)

    async def work(address, channel):
        with ExitStack() as stack:
            silent = [connect(address, stack) for _ in range(50)]
            slow = [connect(address, stack) for _ in range(50)]
            mute = await asyncio.to_thread(after_handshake, address, site, stack)
            for byte in first_bytes():
                for each in slow:
                    with suppress(ConnectionError):  # cut off already
                        each.send(byte)
                assert await say(channel, "t.Devices") == b"hello"
            for each in silent + slow:
                assert await asyncio.to_thread(is_closed, each)
            await asyncio.to_thread(until_closed, mute)

    with_server(site, limits, work)


def test_bytes_that_are_no_tls_hold_up_nobody(site):
    """Noise, HTTP, and handshakes with a byte changed."""
    hello = b"".join(first_bytes(2000))
    chance = random.Random(0)
    texts = [chance.randbytes(chance.randrange(1, 2000)) for _ in range(100)]
    texts += [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 70_000]
    for _ in range(200):
        place = chance.randrange(len(hello))
        texts.append(hello[:place] + chance.randbytes(1) + hello[place + 1 :])

    async def work(address, channel):
        for text in texts:
            with ExitStack() as stack:
                stranger = connect(address, stack)
                with suppress(ConnectionError):
                    stranger.sendall(text)
        assert await say(channel, "t.Devices") == b"hello"

    with_server(site, None, work)


def first_bytes(count: int = 20) -> list[bytes]:
    """The first bytes of a TLS handshake, one by one."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    return [bytes([byte]) for byte in outgoing.read()[:count]]


def after_handshake(address: str, site, stack: ExitStack) -> ssl.SSLSocket:
    """A connection of a device that has agreed on TLS and says nothing more."""
    files = site.files("device", "device-0")
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(files.certificate), str(files.key))
    context.set_alpn_protocols(["h2"])
    plain = connect(address, stack)
    return stack.enter_context(context.wrap_socket(plain, server_hostname=EDGE.host_name(0)))


def until_closed(connection: ssl.SSLSocket) -> None:
    """Read on until the other side closes a connection; a time-out is an error."""
    with suppress(ssl.SSLError, ConnectionError):
        while connection.recv(4096):
            pass


def closed_among(connections: list[socket.socket], least: int) -> int:
    """How many connections the other side has closed, once they are so many."""
    with selectors.DefaultSelector() as waiting:
        for each in connections:
            waiting.register(each, selectors.EVENT_READ)
        closed = 0
        while closed < least:
            ready = waiting.select(LIMIT_S)
            assert ready, f"{closed} of {len(connections)} connections were closed"
            for key, _ in ready:
                assert is_closed(key.fileobj)
                waiting.unregister(key.fileobj)
                closed += 1
        return closed


def test_a_flood_of_connections_is_cut_at_the_limit(site):
    """Those beyond the limit are closed; who is connected goes on, and others come in later."""
    Limits(connections=2 * FLOOD).for_this_process()  # for both ends of the connections
    limits = Limits(connections=100, handshake_s=LIMIT_S)

    async def work(address, channel):
        with ExitStack() as stack:
            flood = [connect(address, stack) for _ in range(FLOOD)]
            assert await say(channel, "t.Devices") == b"hello"
            # 99 beside the device's may wait for their handshake, which they never begin.
            assert await asyncio.to_thread(closed_among, flood, FLOOD - 99) == FLOOD - 99
            assert await say(channel, "t.Devices") == b"hello"
        files = site.files("device", "device-1")
        async with open_channel(address, files, EDGE) as late:
            call = late.unary_unary("/t.Devices/Say")
            assert await call(b"late", timeout=LIMIT_S, wait_for_ready=True) == b"late"

    with_server(site, limits, work)


def test_connections_leave_open_files_for_the_rest(monkeypatch):
    """The soft limit is raised as far as it goes, and no more connections taken than fit."""
    state = [256, 1000]
    monkeypatch.setattr("resource.getrlimit", lambda which: tuple(state))
    monkeypatch.setattr("resource.setrlimit", lambda which, both: state.__setitem__(0, both[0]))
    assert Limits(connections=100).for_this_process().connections == 100
    assert state == [100 + OTHER_FILES, 1000]
    assert Limits(connections=4096).for_this_process().connections == 1000 - OTHER_FILES
    assert state == [1000, 1000]


def test_a_party_that_calls_too_often_is_refused(site):
    limits = Limits(calls_per_s=1e-6, burst=5)

    async def run():
        files = [site.files("device", f"device-{number}") for number in range(2)]
        async with (
            serving(site.files("edge", "edge-0"), RULES, limits) as address,
            open_channel(address, files[0], EDGE) as often,
            open_channel(address, files[1], EDGE) as seldom,
        ):
            for _ in range(5):
                await say(often, "t.Devices")
            error = await refusal(often, "t.Devices")
            assert error.code() == Code.RESOURCE_EXHAUSTED
            assert error.details() == "device device-0: calls more than 1e-06 times a second"
            await say(seldom, "t.Devices")

    within(run())


def test_tokens_come_back_with_time():
    clock = [0.0]
    rates = Rates(2.0, burst=3, clock=lambda: clock[0])
    assert [rates.take("a") for _ in range(4)] == [True, True, True, False]
    assert rates.take("b")
    clock[0] = 0.4  # 0.8 tokens
    assert not rates.take("a")
    clock[0] = 0.5  # 1 token: none of it was lost by asking
    assert [rates.take("a") for _ in range(2)] == [True, False]
    clock[0] = 100.0  # full again, not fuller
    assert [rates.take("a") for _ in range(4)] == [True, True, True, False]


def test_callers_that_are_silent_are_forgotten():
    clock = [0.0]
    rates = Rates(1.0, burst=2, clock=lambda: clock[0])
    for number in range(MOST_BUCKETS):
        rates.take(number)
    clock[0] = 10.0
    rates.take("one more")
    assert len(rates._buckets) == 1


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_tls_1_3_alone(site, version):
    """By Python's ssl, as a client with a good certificate."""

    async def work(address, channel):
        with ExitStack() as stack:
            assert await asyncio.to_thread(agrees, address, site, stack, version) == (
                version == "TLSv1_3"
            )

    with_server(site, None, work)


def agrees(address: str, site, stack: ExitStack, version: str) -> bool:
    files = site.files("device", "device-0")
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(files.certificate), str(files.key))
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    plain = connect(address, stack)
    try:
        context.wrap_socket(plain, server_hostname=EDGE.host_name(0)).close()
    except (ssl.SSLError, ConnectionError):
        return False
    return True


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_finds_tls_1_3_alone(site):
    files = site.files("device", "device-0")

    def scan(address: str, *words: str) -> str:
        command = ["openssl", "s_client", "-connect", address, *words, "-alpn", "h2"]
        command += ["-CAfile", str(files.ca), "-cert", str(files.certificate)]
        command += ["-key", str(files.key), "-cipher", "ALL:@SECLEVEL=0"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
        return done.stdout.decode(errors="replace")

    async def work(address, channel):
        shared = ["-tls1_2", "-psk", "00"]  # as if there were a key that both sides share
        for words in (["-tls1"], ["-tls1_1"], ["-tls1_2"], shared):
            said = await asyncio.to_thread(scan, address, *words)
            assert "New, (NONE), Cipher is (NONE)" in said, words
        assert "New, TLSv1.3, Cipher is TLS_" in await asyncio.to_thread(scan, address, "-tls1_3")

    with_server(site, None, work)


def test_grpc_that_was_loaded_first_is_noticed():
    env = environment()
    env.pop("GRPC_SSL_CIPHER_SUITES")
    code = "import grpc, sys\nfrom fedrt.cli import main\nmain(['enrol', 'show', '.'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert b"gRPC was loaded before fedrt.devices and would accept TLS 1.2" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_page_has_the_limits():
    page = (ROOT / "docs" / "security.md").read_text()
    table = page.partition("### Limits")[2]
    limits = Limits()
    for text in (
        f"| a message | {limits.message_bytes // 2**20} MiB |",
        f"| metadata of a call | {limits.metadata_bytes // 2**10} KiB |",
        f"finished handshake too | {limits.connections},",
        f"| time for a handshake | {limits.handshake_s:g} s |",
        f"| a connection without a call | {limits.idle_s:g} s |",
        f"of a party | {limits.calls_per_connection}; {limits.calls_per_caller} |",
        f"| {limits.calls_per_s:g} a second, {limits.burst} at once |",
        f"| {limits.ping_s:g} s, then {limits.unreachable_s:g} s until the machine acknowledges a"
        f" ping, {limits.stalled_s:g} s until the process answers |",
        f"checked again every {limits.recheck_s:g} s",
    ):
        assert text in table
