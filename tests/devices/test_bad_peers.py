"""An edge server that sends wrong models to another: refused, and the run goes on without."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from support.parties import six
from support.running import running

from fedrt.devices.edge import serve
from fedrt.devices.edge.serve import EdgeServices
from fedrt.devices.edge.states import global_round_of
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import digest_of
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.directory import read_run


def changed(first):
    def change(message):
        numbers = np.frombuffer(message, dtype="<f4").copy()
        numbers[0] = first
        return numbers.tobytes()

    return change


CONTENTS = {
    "short": (lambda message: message[:-4], "has 2596 bytes"),
    "long": (lambda message: message + bytes(4), "has 2604 bytes"),
    "nan": (changed(np.nan), "not finite"),
    "infinite": (changed(np.inf), "not finite"),
}
"""What the second edge server sends in its first gossip, and what is said about it."""


async def another_digest(message):
    yield pb.Piece(head=pb.Payload(length=len(message), digest=digest_of(b"else")))
    yield pb.Piece(chunk=bytes(message))


async def truncated(message):
    yield pb.Piece(head=pb.Payload(length=len(message), digest=digest_of(message)))
    yield pb.Piece(chunk=bytes(message[:-8]))


async def without_head(message):
    yield pb.Piece(chunk=bytes(message))


STREAMS = {
    "another digest": (another_digest, "a payload with another digest"),
    "truncated": (truncated, "an answer that ends too early"),
    "without a head": (without_head, "an answer without a head"),
}


@pytest.fixture
def run(tmp_path, caplog):
    """Carries out a run of two rounds; the rounds in which servers gossiped, and what was said."""
    caplog.set_level(logging.INFO, "fedrt.devices")

    def carry_out():
        mixed = []
        with running(tmp_path, six("rounds.global_rounds=2")) as fleet:
            fleet.start_all()

            def look(done):
                newest = max((tmp_path / "run" / "checkpoints").iterdir())
                with np.load(newest) as arrays:
                    labels = [bytes(each).decode() for each in arrays["labels"]]
                assert {global_round_of(label) for label in labels} == {done.last.t}
                mixed.append(["-mix-" in label for label in labels])

            fleet.coordinate(progress=look)
        assert read_run(tmp_path / "run").summary["global_rounds"] == 2
        return mixed, caplog.text

    return carry_out


@pytest.mark.parametrize("case", CONTENTS)
def test_a_wrong_message_in_a_gossip_is_a_missing_link(run, case, monkeypatch):
    change, said = CONTENTS[case]
    step = EdgeServices._step

    async def spoilt(self, asked, neighbour, context):
        found = await step(self, asked, neighbour, context)
        wrong = self.server.number == 1 and global_round_of(asked.label) == 0
        return change(found) if wrong else found

    monkeypatch.setattr(EdgeServices, "_step", spoilt)
    mixed, text = run()
    assert mixed == [[False, False], [True, True]]
    assert said in text
    assert "no gossip in global round 0: edge-0: edge-1 sends" in text


@pytest.mark.parametrize("case", STREAMS)
def test_a_broken_message_in_a_gossip_is_a_missing_link(run, case, monkeypatch):
    broken, said = STREAMS[case]
    step, wrong = EdgeServices._step, set()

    async def noted(self, asked, neighbour, context):
        found = await step(self, asked, neighbour, context)
        if self.server.number == 1 and global_round_of(asked.label) == 0:
            wrong.add(id(found))
            kept.append(found)
        return found

    kept: list[bytes] = []
    pieces = serve.pieces
    monkeypatch.setattr(EdgeServices, "_step", noted)
    monkeypatch.setattr(serve, "pieces", lambda m: broken(m) if id(m) in wrong else pieces(m))
    mixed, text = run()
    assert mixed == [[False, False], [True, True]]
    assert f"no gossip in global round 0: edge-0: edge-1 sends {said}" in text


def test_wrong_models_are_neither_measured_nor_evaluated(run, monkeypatch, tmp_path):
    model = EdgeServices._model

    async def spoilt(self, run, label, context):
        wrong = self.server.number == 1 and global_round_of(label) == 0
        async for piece in model(self, run, label, context):
            if wrong and piece.WhichOneof("what") == "head":
                content = bytes(changed(np.nan)(await self.server.model_at(run, label)))
                yield pb.Piece(head=pb.Payload(length=len(content), digest=digest_of(content)))
                yield pb.Piece(chunk=content)
                return
            yield piece

    monkeypatch.setattr(EdgeServices, "_model", spoilt)
    mixed, text = run()
    assert mixed == [[True, True], [True, True]]
    assert "edge 1: its distance is not known" in text
    assert "no evaluation in global round 0: an edge model: has a number that is not finite" in text
    assert Checkpoints(tmp_path / "run").newest_models().shape[0] == 2
