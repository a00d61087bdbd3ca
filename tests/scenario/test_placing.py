"""Which device is of which class: worked by hand, and laws that hold for any fleet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrt.scenario.classes import DeviceClass
from fedrt.scenario.placing import place


def placed(sizes, *classes):
    problems: list[str] = []
    found = place([DeviceClass(**each) for each in classes], np.array(sizes), problems)
    assert not problems, problems
    return found.tolist()


def refused(sizes, *classes):
    problems: list[str] = []
    place([DeviceClass(**each) for each in classes], np.array(sizes), problems)
    return problems


A, B, C = {"name": "a"}, {"name": "b"}, {"name": "c"}


def test_shares_are_of_all_clusters_together():
    # 0.7 x 20 = 14 of a, spread as 14/20 x 7, 7, 6 = 4.9, 4.9, 4.2: 4, 4, 4 and two more.
    assert placed([7, 7, 6], A | {"share": 0.7}, B | {"share": 0.3}) == [[5, 2], [5, 2], [4, 2]]
    # A half of five is 2.5: the first of equal remainders gets the device that is left.
    assert placed([5], A | {"share": 0.5}, B | {"share": 0.5}) == [[3, 2]]


def test_shares_of_each_cluster_are_rounded_in_each():
    a, b = A | {"share": 0.7, "per_edge": True}, B | {"share": 0.3, "per_edge": True}
    # 0.7 x 3 = 2.1 and 0.3 x 3 = 0.9: the larger remainder is b's. Of all: 6.3 and 2.7, so 6 and 3.
    assert placed([3, 3, 3], a, b) == [[2, 1], [2, 1], [2, 1]]
    # 0.6 x 2 = 1.2 in each of four clusters is 1, and of all eight 4.8, so 5.
    a, b = A | {"share": 0.6}, B | {"share": 0.4}
    each = {"per_edge": True}
    assert np.sum(placed([2] * 4, a | each, b | each), 0).tolist() == [4, 4]
    assert np.sum(placed([2] * 4, a, b), 0).tolist() == [5, 3]


def test_counts_come_first_and_the_rest_last():
    # One in each cluster; of the 9 that are left a third; then all others.
    gateway = A | {"count": 1, "per_edge": True}
    assert placed([4, 4, 4], B | {"share": 1 / 3}, C, gateway) == [[1, 2, 1]] * 3
    # 5 over clusters of 2 and 8: 1 and 4.
    assert placed([2, 8], A | {"count": 5}, B) == [[1, 1], [4, 4]]
    assert placed([2, 8], A | {"count": 10}, B) == [[2, 0], [8, 0]]
    assert placed([3], A | {"share": 0.0}, B | {"count": 0}, C) == [[0, 0, 3]]


def test_some_edges_only():
    car = A | {"share": 0.5, "edges": (2, 1)}
    # Half of the 10 devices of edges 1 and 2; b and c have the 4 of edge 0 and what is left.
    found = placed([4, 6, 4], car, B | {"share": 0.6}, C | {"share": 0.4})
    assert [row[0] for row in found] == [0, 3, 2]
    # 0.6 x 9 = 5.4, 0.4 x 9 = 3.6: 5 and 4.
    assert np.sum(found, 0).tolist() == [5, 5, 4]
    assert np.sum(found, 1).tolist() == [4, 6, 4]
    whole = placed([2, 3], A | {"edges": (0,)}, B | {"edges": (1,)})
    assert whole == [[2, 0], [0, 3]]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ([A | {"share": 0.7}], "the shares a 0.7 add up to 0.7: must be 1, or a class without"),
        ([A | {"share": 0.7}, B | {"share": 0.4}], "a 0.7, b 0.4 add up to 1.1: must be at most 1"),
        ([A, B], "a and b have neither share nor count: only one takes the rest"),
        ([A | {"count": 4}], "4 devices are of no class, the first in the cluster of edge 0"),
        ([A | {"count": 9}, B], "scenario.fleet.classes.a.count = 9: must be <= 8, the devices"),
        ([A | {"count": 4, "per_edge": True}, B], "must be <= 3, what is left in the smallest"),
        ([A | {"edges": (1,)}], "3 devices are of no class, the first in the cluster of edge 0"),
        (
            [A | {"share": 0.5, "per_edge": True}, B | {"share": 0.5}],
            "per_edge must be the same for classes with shares: a, b",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(classes, words):
    (line,) = refused([3, 5], *classes)
    assert line.startswith("scenario.fleet.classes")
    assert words in line


SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=8)


@settings(max_examples=200)
@given(SIZES, st.lists(st.integers(0, 100), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_every_device_has_one_class_and_shares_are_kept_to_one_device(sizes, parts, each, rest):
    shares = np.array(parts) / max(1, sum(parts)) * (0.8 if rest else 1.0)
    if not rest and not any(parts):
        shares[0] = 1.0
    classes = [
        {"name": f"c{k}", "share": float(share), "per_edge": each} for k, share in enumerate(shares)
    ]
    found = np.array(placed(sizes, *classes, *([A] if rest else [])))
    assert (found >= 0).all()
    assert found.sum(1).tolist() == sizes
    if each:
        exact = np.array(sizes)[:, None] * shares
        assert (np.abs(found[:, : len(shares)] - exact) < 1 + 1e-9).all()
    else:
        total = found.sum(0)[: len(shares)]
        assert (np.abs(total - sum(sizes) * shares) < 1 + 1e-9).all()
        # A class alone is spread to within one device of its share of every cluster.
        first = total[0] * np.array(sizes) / sum(sizes)
        assert (np.abs(found[:, 0] - first) < 1 + 1e-9).all()


@settings(max_examples=100)
@given(SIZES, st.integers(0, 30), st.integers(0, 3))
def test_counts_are_exact(sizes, count, each):
    each, count = min(each, min(sizes)), min(count, sum(sizes))
    count = min(count, sum(sizes) - each * len(sizes))
    per_edge = {"name": "each", "count": each, "per_edge": True}
    found = np.array(placed(sizes, A | {"count": count}, per_edge, B))
    assert (found[:, 1] == each).all()
    assert found[:, 0].sum() == count
    assert found.sum(1).tolist() == sizes
