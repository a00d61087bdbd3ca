"""Payloads in chunks, and what parties compare before anything else."""

from __future__ import annotations

import asyncio

import pytest
from support.tiny import tiny

from fedrt.devices.wire.chunks import CHUNK, BrokenPayloadError, chunks_of, gathered, head_of
from fedrt.devices.wire.messages_pb2 import Party
from fedrt.devices.wire.party import PROTOCOL, difference, is_label, own_party


def gather(head, chunks, most=10**9):
    source = iter(chunks)

    async def chunk():
        return next(source, b"")

    return asyncio.run(gathered(head, most, chunk))


@pytest.mark.parametrize("length", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK - 7])
def test_payloads_arrive_as_they_were_sent(length):
    payload = bytes(i % 251 for i in range(length))
    pieces = list(chunks_of(payload))
    assert all(len(piece) <= CHUNK for piece in pieces)
    assert gather(head_of(payload), pieces) == payload


def test_broken_payloads_are_refused():
    payload = b"x" * (CHUNK + 10)
    head, pieces = head_of(payload), list(chunks_of(payload))
    with pytest.raises(BrokenPayloadError, match="must be at most 100"):
        gather(head, pieces, most=100)
    with pytest.raises(BrokenPayloadError, match="announced length"):
        gather(head, pieces[:1])
    with pytest.raises(BrokenPayloadError, match="announced length"):
        gather(head, [pieces[0], pieces[1] + b"more"])
    with pytest.raises(BrokenPayloadError, match="digest"):
        gather(head, [pieces[0], b"y" * 10])


def test_parties_that_agree_and_parties_that_do_not():
    ours = own_party(tiny(), 0)
    assert difference(ours, own_party(tiny(), 0), "edge-0") is None
    assert "another scenario or seed" in str(difference(ours, own_party(tiny(), 1), "edge-0"))
    newer = Party(protocol=PROTOCOL + 1, version="9.0", scenario=ours.scenario)
    assert "protocol 2 (FedRT 9.0), newer than 1" in str(difference(ours, newer, "edge-0"))
    other = Party(protocol=PROTOCOL, version="0.0.9", scenario=ours.scenario)
    assert "FedRT 0.0.9" in str(difference(ours, other, "edge-0"))
    patched = ours.version.rpartition(".")[0] + ".99"
    same = Party(protocol=PROTOCOL, version=patched, scenario=ours.scenario)
    assert difference(ours, same, "edge-0") is None
    one, two = own_party(tiny(), 0, "aa"), own_party(tiny(), 0, "bb")
    assert "another model" in str(difference(one, two, "edge-0"))


@pytest.mark.parametrize("text", ["", "../x", "a/b", "-a", "A", "a" * 90, "a\n", "a.b", "ä"])
def test_names_that_could_lead_elsewhere_are_none(text):
    assert not is_label(text)
