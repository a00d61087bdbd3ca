"""Who is let in by a server, and whom a client takes for an edge server."""

from __future__ import annotations

import pytest
from support.enrolment import refusal, say, serving, within

from fedrt.devices.security import Access, Party, open_channel
from fedrt.devices.security.reading import read_pem

# isort: split
import grpc

EDGE = Party("edge", "edge-0")
RULES = {
    "t.Devices": Access("device", frozenset({"device-0", "device-1"})),
    "t.Peers": Access("edge"),
    "t.Orders": Access("coordinator"),
}
DENIED = grpc.StatusCode.PERMISSION_DENIED


def outcome(site, files, service, expect=EDGE, server=None, channel_options=None):
    """What a call gives: its answer, or gRPC's error."""

    async def work():
        async with (
            serving(server or site.files("edge", "edge-0"), RULES) as address,
            open_channel(address, files, expect, channel_options) as channel,
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
    assert error.code() == DENIED
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
        credentials = grpc.ssl_channel_credentials(ca)
        async with (
            serving(site.files("edge", "edge-0"), RULES) as address,
            grpc.aio.secure_channel(address, credentials, options) as channel,
        ):
            return await refusal(channel, "t.Devices")

    assert within(work()).code() == grpc.StatusCode.UNAVAILABLE


def test_plain_text_is_refused(site):
    async def work():
        async with (
            serving(site.files("edge", "edge-0"), RULES) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            return await refusal(channel, "t.Devices")

    assert within(work()).code() == grpc.StatusCode.UNAVAILABLE
