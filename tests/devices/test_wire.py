"""Payloads in chunks, and what parties compare before anything else."""

from __future__ import annotations

import asyncio

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from support.tiny import tiny

from fedrt.devices.wire.chunks import CHUNK, BrokenPayloadError, chunks_of, gathered, head_of
from fedrt.devices.wire.messages_pb2 import Party
from fedrt.devices.wire.party import PROTOCOL, difference, is_label, own_party
from fedrt.devices.wire.raw import raw_chunk, reader, writer
from fedrt.devices.wire.services import CHUNK_FIELDS


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
    head, pieces = head_of(payload), [payload[:CHUNK], payload[CHUNK:]]
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
    assert "protocol 3 (FedRT 9.0), newer than 2" in str(difference(ours, newer, "edge-0"))
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


@pytest.mark.parametrize(("kind", "field"), CHUNK_FIELDS.items())
@pytest.mark.parametrize("length", [0, 1, 127, 128, 2**14, CHUNK])
def test_chunks_are_on_the_wire_what_protobuf_writes(kind, field, length):
    chunk = bytes(i % 251 for i in range(length))
    written = raw_chunk(field, memoryview(chunk))
    assert written == kind(chunk=chunk).SerializeToString() == writer(kind)(written)
    found = reader(kind, field)(written)
    assert found.WhichOneof("what") == "chunk"
    assert bytes(found.chunk) == chunk


@given(st.binary(max_size=40), st.sampled_from(list(CHUNK_FIELDS)), st.booleans())
def test_what_is_read_is_what_protobuf_reads(text, kind, as_chunk):
    """Whatever was sent: the same chunk, the same other message, or none that can be read."""
    field = CHUNK_FIELDS[kind]
    text = bytes([field << 3 | 2]) + text if as_chunk else text
    try:
        wanted = kind.FromString(text)
    except DecodeError:
        with pytest.raises(DecodeError):
            reader(kind, field)(text)
        return
    found = reader(kind, field)(text)
    assert found.WhichOneof("what") == wanted.WhichOneof("what")
    if found is not wanted and wanted.WhichOneof("what") == "chunk":
        assert bytes(found.chunk) == wanted.chunk
    else:
        assert found == wanted
