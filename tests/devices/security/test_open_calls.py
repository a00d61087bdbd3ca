"""Certificates while a call is open, and files that change while a server runs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from support.children import LIMIT_S
from support.enrolment import Site, make_site, say, serving, within

from fedrt.devices.security import Access, Limits, Party, open_channel, server_name, until_revoked
from fedrt.devices.security.certificates import now
from fedrt.devices.security.pem import read_certificate, read_pem, write_pem
from fedrt.errors import InputError

# isort: split
import grpc

EDGE = Party("edge", "edge-0")
RULES = {"t.Devices": Access("device")}
SOON = Limits(recheck_s=0.05)


@pytest.fixture
def own(tmp_path) -> Site:
    return make_site(tmp_path / "own")


async def talking(channel, method):
    """A call that stays open, after its first answer."""
    call = channel.stream_stream(f"/t.Devices/{method}")(timeout=LIMIT_S)
    await call.write(b"first")
    assert await call.read() == b"first"
    return call


async def end_of(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    return caught.value


@pytest.mark.parametrize("method", ["Talk", "Read"])
def test_revocation_ends_open_calls_of_that_party_alone(own, method):
    async def work():
        files = [own.files("device", f"device-{number}") for number in range(2)]
        async with (
            serving(own.files("edge", "edge-0"), RULES, SOON) as address,
            open_channel(address, files[0], EDGE) as bad,
            open_channel(address, files[1], EDGE) as good,
        ):
            ended, stays = await talking(bad, method), await talking(good, method)
            own.revoke("device-0")
            error = await end_of(ended)
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED
            assert error.details().startswith("device device-0: certificate was revoked on 2")
            await stays.write(b"second")
            assert await stays.read() == b"second"
            await stays.done_writing()
            assert await stays.read() is grpc.aio.EOF
            with pytest.raises(grpc.aio.AioRpcError, match="was revoked on"):
                await say(bad, "t.Devices")

    within(work())


def test_a_call_ends_when_the_certificate_expires(own, monkeypatch):
    async def work():
        files = own.files("device", "device-0")
        async with (
            serving(own.files("edge", "edge-0"), RULES, SOON) as address,
            open_channel(address, files, EDGE) as channel,
        ):
            call = await talking(channel, "Talk")
            later = now() + timedelta(days=366)
            monkeypatch.setattr("fedrt.devices.security.trust.now", lambda: later)
            error = await end_of(call)
            assert error.details().startswith("device device-0: certificate expired on 2")

    within(work())


async def answers(channel) -> bool:
    try:
        return await say(channel, "t.Devices") == b"hello"
    except grpc.aio.AioRpcError as error:
        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False


def test_a_call_that_its_caller_ends_is_not_counted_any_more(own):
    async def work():
        files = own.files("device", "device-0")
        limits = Limits(calls_per_caller=1, calls_per_s=1e6, burst=1000)
        async with serving(own.files("edge", "edge-0"), RULES, limits) as address:
            for _ in range(3):
                async with open_channel(address, files, EDGE) as channel:
                    call = await talking(channel, "Talk")
                    with pytest.raises(grpc.aio.AioRpcError, match="has 1 calls open, the most"):
                        await say(channel, "t.Devices")
                    call.cancel()
                    while not await answers(channel):  # until the server has noticed
                        await asyncio.sleep(0.01)

    within(work())


def shown_by(address: str, files) -> int:
    """The serial number of the certificate that a server shows."""
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(files.certificate), str(files.key))
    context.set_alpn_protocols(["h2"])
    host, _, port = address.partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname=EDGE.host_name(0)) as secure,
    ):
        assert secure.version() == "TLSv1.3"
        found = secure.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)


def test_a_server_shows_its_new_certificate_without_a_restart(own):
    async def work():
        edge, device = own.files("edge", "edge-0"), own.files("device", "device-0")
        first = read_certificate(edge.certificate).serial_number
        async with (
            serving(edge, RULES) as address,
            open_channel(address, device, EDGE) as channel,
        ):
            call = await talking(channel, "Talk")
            assert await asyncio.to_thread(shown_by, address, device) == first
            # A certificate for another key, as between two copies: nothing changes.
            write_pem(edge.certificate, read_pem(own.files("edge", "edge-1").certificate))
            assert await asyncio.to_thread(shown_by, address, device) == first
            own.sign_again(edge, party=EDGE)
            second = read_certificate(edge.certificate).serial_number
            assert await asyncio.to_thread(shown_by, address, device) == second != first
            await call.write(b"on")  # the open connection stays as it is
            assert await call.read() == b"on"
            call.cancel()

    within(work())


def test_a_list_that_is_older_damaged_or_gone_changes_nothing(own, caplog):
    files = own.files("device", "device-0")
    oldest = read_pem(files.revoked)
    own.revoke("device-0")
    newest = read_pem(files.revoked)
    certificate = read_certificate(files.certificate)
    trust = files.trust()
    assert "was revoked on" in trust.refusal(certificate)
    stranger = read_pem(make_site(own.folder / "stranger").files("device", "x").revoked)
    for text, said in [
        (oldest, "is older than the list that was read before"),
        (newest[: len(newest) // 2], "must have a revocation list"),
        (b"", "must have a revocation list"),
        (stranger, "must be signed by the authority"),
        (None, "cannot be read: No such file"),
    ]:
        caplog.clear()
        write_pem(files.revoked, text) if text is not None else files.revoked.unlink()
        trust.refresh()
        assert said in caplog.text
        assert "was revoked on" in trust.refusal(certificate)
    write_pem(files.revoked, newest)
    caplog.clear()
    trust.refresh()
    assert not caplog.text


def test_a_party_does_not_start_without_its_list(own):
    files = own.files("device", "device-0")
    write_pem(files.revoked, b"nothing")
    assert files.problems() == [f"{files.revoked}: must have a revocation list (PEM)"]
    with pytest.raises(InputError, match="must have a revocation list"):
        open_channel("127.0.0.1:1", files, EDGE)


def test_while_authorities_change_both_are_known(own, tmp_path):
    """Certificates and lists of the old and the new one stand one after the other."""
    new = make_site(tmp_path / "new")
    own.files("device", "device-0")
    own.files("device", "device-2")
    own.revoke("device-2")
    old_files, new_files = both(own, new)
    assert (old_files.problems(), new_files.problems()) == ([], [])
    gone = read_certificate(own.files("device", "device-2").certificate)
    assert "was revoked on" in new_files.trust().refusal(gone)


def both(own, new) -> list:
    """Devices 0 and 1, of an old authority and a new one, who know both."""
    files = [own.files("device", "device-0"), new.files("device", "device-1")]
    for name in ("ca", "revoked"):
        text = b"".join(read_pem(getattr(each, name)) for each in files)
        for each in files:
            write_pem(getattr(each, name), text)
    return files


def test_a_revoked_edge_server_of_an_old_authority_is_signed_by_the_new_one(own, tmp_path):
    own.files("edge", "edge-0")
    own.revoke("edge-0")
    new = make_site(tmp_path / "new", after=own.folder / "ca")
    for device in both(own, new):
        name = server_name(device, EDGE)
        assert name == "edge-0.g1.edge.fedrt"
        edge = new.files("edge", "edge-0")
        names = read_certificate(edge.certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert name in names.value.get_values_for_type(x509.DNSName)


def test_a_file_that_lacks_the_list_of_one_authority_changes_nothing(own, tmp_path, caplog):
    new = make_site(tmp_path / "new", after=own.folder / "ca")
    own.files("device", "device-2")
    own.revoke("device-2")
    device, _ = both(own, new)
    trust = device.trust()
    write_pem(device.revoked, read_pem(new.files("edge", "edge-0").revoked))
    trust.refresh()
    assert "is older than the list that was read before" in caplog.text
    gone = read_certificate(own.files("device", "device-2").certificate)
    assert "was revoked on" in trust.refusal(gone)


def test_a_client_learns_that_its_server_was_revoked(own):
    async def work():
        device = own.files("device", "device-0")
        own.files("edge", "edge-0")
        own.files("edge", "edge-1")
        both = [
            asyncio.create_task(until_revoked(device, Party("edge", f"edge-{number}"), 0.02))
            for number in range(2)
        ]
        await asyncio.sleep(0)  # both have read the list
        stamps = device.stamps()
        own.revoke("edge-0")
        assert device.stamps() != stamps
        await both[0]
        assert not both[1].done()
        both[1].cancel()

    within(work())


def test_the_name_to_ask_for_changes_with_the_list(own):
    device = own.files("device", "device-0")
    own.files("edge", "edge-0")
    own.files("edge", "edge-1")
    names = [server_name(device, EDGE)]
    for _ in range(2):
        own.revoke("edge-0")
        own.renew("edge", "edge-0")
        names.append(server_name(device, EDGE))
    assert names == [f"edge-0.g{number}.edge.fedrt" for number in range(3)]
    assert server_name(device, Party("edge", "edge-1")) == "edge-1.g0.edge.fedrt"
    assert server_name(device, Party("device", "edge-0")) == "edge-0.g0.device.fedrt"
