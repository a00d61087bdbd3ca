"""An order in shares: every device once, edges whole, and no more than may be sent at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrt.distributed.shares import share_out
from fedrt.learning.engines.engine import TrainingOrder


def order_of(edge_of_device: list[int], steps: list[int]) -> TrainingOrder:
    count = len(edge_of_device)
    return TrainingOrder(
        t=1,
        r=2,
        devices=np.arange(count) + 5,
        edge_of_device=np.array(edge_of_device, dtype=np.int64),
        local_steps=np.array(steps[:count], dtype=np.int64),
        weight=np.arange(count) / 7,
    )


@given(
    devices=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=60),
    workers=st.integers(1, 5),
    pieces=st.integers(1, 4),
    most_edges=st.integers(1, 6),
)
def test_every_device_is_in_one_share_with_its_whole_edge(devices, workers, pieces, most_edges):
    edge_of_device, steps = [edge for edge, _ in devices], [step for _, step in devices]
    order = order_of(edge_of_device, steps)
    shares = share_out(order, workers, pieces, most_edges)
    places = np.concatenate([share.place for share in shares] or [np.array([], dtype=int)])
    assert sorted(places.tolist()) == list(range(len(devices)))
    edges = [edge for share in shares for edge in share.edges.tolist()]
    assert sorted(edges) == sorted(set(edge_of_device))
    assert [share.owner for share in shares] == sorted(share.owner for share in shares)
    for share in shares:
        assert 1 <= len(share.edges) <= most_edges
        assert 0 <= share.owner < workers
        own = share.order
        assert (own.t, own.r) == (1, 2)
        np.testing.assert_array_equal(own.devices, order.devices[share.place])
        np.testing.assert_array_equal(own.local_steps, order.local_steps[share.place])
        np.testing.assert_array_equal(own.weight, order.weight[share.place])
        named = share.edges[own.edge_of_device]
        np.testing.assert_array_equal(named, order.edge_of_device[share.place])


def test_equal_edges_are_dealt_out_equally():
    """Eight edges of nine devices: two workers with four each, in as many shares as asked for."""
    order = order_of(np.repeat(np.arange(8), 9).tolist(), [10] * 72)
    for pieces, sizes in ((1, [4, 4]), (2, [2, 2, 2, 2]), (4, [1] * 8), (9, [1] * 8)):
        shares = share_out(order, 2, pieces, 100)
        assert [len(share.edges) for share in shares] == sizes
        owners = [share.owner for share in shares]
        assert owners == [0] * (len(sizes) // 2) + [1] * (len(sizes) // 2)
    assert {len(share.edges) for share in share_out(order, 1, 1, 3)} == {2, 3}


def test_edges_with_more_steps_count_more():
    """Three steps against three edges of one: a worker each."""
    order = order_of([0, 1, 2, 3], [3, 1, 1, 1])
    assert [share.edges.tolist() for share in share_out(order, 2, 1, 9)] == [[0], [1, 2, 3]]
