"""Chunks that keep to one edge: an edge comes to the same bits whatever else is trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning_cases import engine_case, method

from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.stacked import engine as engine_stacked
from fedrt.learning.stacked.engine import StackedEngine, _edge_blocks

pytestmark = pytest.mark.numerical

FIELDS = ("devices", "edge_of_device", "local_steps", "weight")


def test_an_edge_alone_has_the_bits_it_has_among_others(monkeypatch):
    """ResNet-20 in float32 with uneven steps, two devices at a time; also in blocks of two."""
    case = engine_case("sequential", "resnet20")
    options = {"augment": False, "chunk": 2, "by_edge": True}
    engine = StackedEngine(case.flat, case.samples, case.batches, method(), **options)
    whole = engine.train(case.models, case.order)
    for edge in (0, 1, 3):
        mine = case.order.edge_of_device == edge
        order = replace(case.order, **{name: getattr(case.order, name)[mine] for name in FIELDS})
        alone = engine.train(case.models, order)
        assert torch.equal(alone.models[edge], whole.models[edge])
        assert (alone.loss_sum == whole.loss_sum[mine]).all()
    monkeypatch.setattr(engine_stacked, "BLOCK", 2)
    assert torch.equal(engine.train(case.models, case.order).models, whole.models)


@given(
    devices=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=60),
    chunk=st.integers(1, 9),
)
def test_chunks_hold_every_device_once_and_one_edge_each(devices, chunk):
    edge_of_device = np.array([edge for edge, _ in devices], dtype=np.int64)
    steps = np.array([count for _, count in devices], dtype=np.int64)
    count = np.arange(len(devices))
    order = TrainingOrder(0, 0, count, edge_of_device, steps, count / 7)
    places = [place for block in _edge_blocks(order, chunk) for place in block]
    assert sorted(n for place in places for n in place.tolist()) == count.tolist()
    for place in places:
        assert 1 <= len(place) <= chunk
        assert len(set(edge_of_device[place].tolist())) == 1
        assert (np.diff(steps[place]) <= 0).all()
