"""Who is let in by a server, and whom a client takes for an edge server."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.children import LIMIT_S
from support.enrolment import (
    Echo,
    make_site,
    posing,
    refusal,
    say,
    serving,
    unchecked_channel,
    within,
)

from fedrt.devices.security import Access, Party, open_channel, why_unavailable
from fedrt.devices.security.certificates import PEM, make_certificate, now
from fedrt.devices.security.pem import read_certificate, read_key, read_pem, write_pem
from fedrt.errors import InputError

# isort: split
import grpc

EDGE = Party("edge", "edge-0")
RULES = {
    "t.Devices": Access("device", frozenset({"device-0", "device-1"})),
    "t.Peers": Access("edge"),
    "t.Orders": Access("coordinator"),
}
Code = grpc.StatusCode


def outcome(site, files, service, *, expect=EDGE, credentials=None, checked=True):
    """What a call gives: its answer, or gRPC's error."""

    async def work():
        connect = open_channel if checked else unchecked_channel
        async with (
            serving(site.files("edge", "edge-0"), RULES, credentials=credentials) as address,
            connect(address, files, expect) as channel,
        ):
            try:
                return await say(channel, service)
            except grpc.aio.AioRpcError as error:
                return error

    return within(work())


def test_a_device_calls_its_edge_server(site):
    assert outcome(site, site.files("device", "device-0"), "t.Devices") == b"hello"


@pytest.mark.parametrize(
    ("role", "name", "service"),
    [
        ("device", "device-0", "t.Peers"),
        ("device", "device-0", "t.Orders"),
        ("device", "device-0", "t.Unheard"),
        ("device", "device-7", "t.Devices"),
        ("edge", "edge-1", "t.Devices"),
        ("edge", "edge-1", "t.Orders"),
        ("edge", "device-0", "t.Devices"),
        ("coordinator", "coordinator", "t.Devices"),
        ("coordinator", "coordinator", "t.Peers"),
    ],
)
def test_another_role_or_name_is_refused(site, role, name, service):
    error = outcome(site, site.files(role, name), service)
    assert error.code() == Code.PERMISSION_DENIED
    assert error.details() == f"{role} {name}: may not call {service} here"


@pytest.mark.parametrize(
    ("role", "name", "service"),
    [("edge", "edge-1", "t.Peers"), ("coordinator", "coordinator", "t.Orders")],
)
def test_each_role_has_its_service(site, role, name, service):
    assert outcome(site, site.files(role, name), service) == b"hello"


def test_no_certificate_is_refused(site):
    async def work():
        ca = read_pem(site.files("edge", "edge-0").ca)
        options = [("grpc.ssl_target_name_override", EDGE.host_name(0))]
        async with (
            serving(site.files("edge", "edge-0"), RULES) as address,
            grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca), options) as channel,
        ):
            return await refusal(channel, "t.Devices")

    assert within(work()).code() == Code.UNAVAILABLE


def test_plain_text_is_refused(site):
    async def work():
        async with (
            serving(site.files("edge", "edge-0"), RULES) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            return await refusal(channel, "t.Devices")

    assert within(work()).code() == Code.UNAVAILABLE


@pytest.fixture
def own(tmp_path):
    """An authority whose certificates a test may spoil."""
    return make_site(tmp_path / "own")


def forged(site, whose, party):
    """A party's certificate signed with the key of another party, with that one's behind it."""
    files = site.files(party.role, party.name)
    signer = read_certificate(whose.certificate)
    made = make_certificate(
        signer,
        read_key(whose.key),
        party,
        read_key(files.key).public_key(),
        generation=0,
        hosts=[],
        until=signer.not_valid_after_utc,
    )
    write_pem(files.certificate, made.public_bytes(PEM) + read_pem(whose.certificate))
    return files


def test_a_certificate_that_another_authority_or_a_device_signed_is_refused(own, tmp_path):
    stranger = make_site(tmp_path / "stranger").files("device", "device-0")
    mine = own.files("device", "device-0")
    stranger = replace(stranger, ca=mine.ca, revoked=mine.revoked)
    makeshift = forged(own, own.files("device", "device-5"), Party("device", "device-1"))
    for files in (stranger, makeshift):
        with pytest.raises(InputError, match="not signed by this authority"):
            outcome(own, files, "t.Devices")
        error = outcome(own, files, "t.Devices", checked=False)
        assert error.code() == Code.UNAVAILABLE
        assert "does not take our certificate" in why_unavailable(error, EDGE)


def test_an_expired_certificate_is_refused(own):
    files = own.expired("device", "device-0")
    with pytest.raises(InputError, match="certificate expired on 2"):
        outcome(own, files, "t.Devices")
    assert outcome(own, files, "t.Devices", checked=False).code() == Code.UNAVAILABLE


def test_a_revoked_certificate_is_refused(own):
    files = own.files("device", "device-0")
    own.files("edge", "edge-0")
    own.revoke("device-0")
    with pytest.raises(InputError, match="certificate was revoked on 2"):
        outcome(own, files, "t.Devices")
    error = outcome(own, files, "t.Devices", checked=False)
    assert error.code() == Code.UNAUTHENTICATED
    assert error.details().startswith("device device-0: certificate was revoked on 2")
    assert outcome(own, own.files("device", "device-1"), "t.Devices") == b"hello"


def taken_for_edge_0(site, server_files) -> str:
    """The line about a call to a server with these files, by a device that expects edge-0."""
    device = site.files("device", "device-0")
    error = outcome(site, device, "t.Devices", credentials=posing(server_files))
    assert error.code() == Code.UNAVAILABLE
    return why_unavailable(error, EDGE)


def test_nobody_else_is_taken_for_an_edge_server(own, tmp_path):
    stranger = make_site(tmp_path / "stranger").files("edge", "edge-0")
    own.files("edge", "edge-0")
    said = {
        "device": taken_for_edge_0(own, own.files("device", "device-5")),
        "coordinator": taken_for_edge_0(own, own.files("coordinator", "coordinator")),
        "neighbour": taken_for_edge_0(own, own.files("edge", "edge-1")),
        "stranger": taken_for_edge_0(own, stranger),
    }
    assert said == {
        "device": "edge edge-0: shows a certificate that is no edge server's",
        "coordinator": "edge edge-0: shows a certificate that is no edge server's",
        "neighbour": "edge edge-0: shows the certificate of another party, or one that was revoked",
        "stranger": "edge edge-0: shows the certificate of another authority",
    }


def test_an_expired_or_forged_edge_server_is_refused(own, tmp_path):
    good = own.files("edge", "edge-0")
    forger = make_site(tmp_path / "forger")
    makeshift = forged(forger, own.files("device", "device-5"), EDGE)
    assert "certificate" in taken_for_edge_0(own, makeshift)
    old = replace(good, certificate=tmp_path / "old.pem")
    write_pem(old.certificate, read_pem(good.certificate))
    own.sign_again(old, until=now() - timedelta(minutes=1))
    assert "expired" in taken_for_edge_0(own, old)


def test_a_revoked_edge_server_is_refused_and_its_next_certificate_is_taken(own, tmp_path):
    """By clients that have the list; those that do not have it yet take both."""
    device = own.files("device", "device-0")
    late = own.files("device", "device-1")
    before = read_pem(late.revoked)
    stolen = replace(own.files("edge", "edge-0"), certificate=tmp_path / "stolen.pem")
    write_pem(stolen.certificate, read_pem(own.files("edge", "edge-0").certificate))
    assert outcome(own, device, "t.Devices", credentials=posing(stolen)) == b"hello"
    own.revoke("edge-0")
    own.renew("edge", "edge-0")
    error = outcome(own, device, "t.Devices", credentials=posing(stolen))
    assert why_unavailable(error, EDGE).endswith("another party, or one that was revoked")
    assert outcome(own, device, "t.Devices") == b"hello"
    write_pem(late.revoked, before)
    assert outcome(own, late, "t.Devices") == b"hello"


def test_a_server_that_cannot_be_reached_is_one_line(site):
    async def work(address):
        files = site.files("device", "device-0")
        async with open_channel(address, files, EDGE) as channel:
            return why_unavailable(await refusal(channel, "t.Devices"), EDGE)

    assert within(work("127.0.0.1:1")) == "edge edge-0: cannot be reached: nobody listens there"
    for address in ("127.0.0.1", "unix:/x", "a b:1", "x:99999", "dns:///x:1", ":1"):
        with pytest.raises(InputError, match=r"must be HOST:PORT, or \[IPV6\]:PORT"):
            within(work(address))


def test_a_message_that_cannot_be_read_is_refused_without_a_traceback(site, monkeypatch, caplog):
    def strict(text: bytes) -> bytes:
        if text == b"bad":
            raise ValueError("no message")
        return text

    class Strict(Echo):
        def service(self, details):
            return super().service(details)._replace(request_deserializer=strict)

    monkeypatch.setattr("support.enrolment.Echo", Strict)

    async def work():
        files = site.files("device", "device-0")
        async with (
            serving(site.files("edge", "edge-0"), RULES) as address,
            open_channel(address, files, EDGE) as channel,
        ):
            errors = [await refusal(channel, "t.Devices", b"bad")]
            for method in ("Talk", "Read"):
                call = channel.stream_stream(f"/t.Devices/{method}")(timeout=LIMIT_S)
                await call.write(b"good")
                assert await call.read() == b"good"
                await call.write(b"bad")
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call.read()
                errors.append(caught.value)
            return [(error.code(), error.details()) for error in errors]

    line = "device device-0: sent a message that cannot be read"
    assert within(work()) == [(Code.INVALID_ARGUMENT, line)] * 3
    assert not [each for each in caplog.records if each.exc_info]
