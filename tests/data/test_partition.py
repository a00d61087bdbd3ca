"""Who holds what: nobody twice, sizes, label sets, proportions; keyed by the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fedrt.data.catalogue import Dataset
from fedrt.data.partitions import load_divided, partition
from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.scenario.model import (
    BootstrapPartition,
    DirichletPartition,
    IidPartition,
    PathologicalPartition,
    WriterPartition,
)

BY_DEVICE = DirichletPartition(1.0, "device")
BY_CLASS = DirichletPartition(1.0, "class")


def labelled(labels, num_classes: int, writer=None) -> Dataset:
    labels = np.asarray(labels, dtype=np.int64)
    images = np.zeros((len(labels), 1), np.float32)
    return Dataset("made", images, labels, images[:1], labels[:1], num_classes, writer)


def balanced(each: int, num_classes: int = 10) -> Dataset:
    mixed = np.random.default_rng(0).permutation(np.repeat(np.arange(num_classes), each))
    return labelled(mixed, num_classes)


def edges(*sizes: int) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


@st.composite
def cases(draw):
    """A data set of uneven classes, clusters of uneven size, a seed."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    classes = draw(st.integers(1, 12))
    counts = draw(st.lists(st.integers(0, 40), min_size=classes, max_size=classes))
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(
        np.repeat(np.arange(classes), counts)
    )
    return labelled(labels, classes), edges(*sizes), draw(st.integers(0, 10**6))


def assert_cover(parts, dataset, whole: bool) -> None:
    """Everything held once, and all of it where the scheme uses all."""
    held = np.concatenate(list(parts))
    assert held.dtype == np.int64
    assert len(np.unique(held)) == len(held)
    assert held.min() >= 0
    assert held.max() < len(dataset.train_labels)
    assert parts.sizes.min() >= 1
    if whole:
        assert len(held) == len(dataset.train_labels)
    for part in parts:
        assert (np.diff(part) > 0).all()
    counts = parts.class_counts()
    assert_array_equal(counts.sum(1), parts.sizes)
    for device, part in enumerate(parts):
        assert_array_equal(
            counts[device],
            np.bincount(dataset.train_labels[part], minlength=dataset.num_classes),
        )


@pytest.mark.parametrize(
    "settings",
    [IidPartition(), BY_DEVICE, BY_CLASS, DirichletPartition(0.05, "device")],
)
@given(case=cases())
def test_all_samples_are_given_once(settings, case):
    dataset, edge_of_device, seed = case
    if len(dataset.train_labels) < len(edge_of_device):
        with pytest.raises(InputError, match="training samples: must be at least one per device"):
            partition(dataset, settings, edge_of_device, seed)
        return
    try:
        parts = partition(dataset, settings, edge_of_device, seed)
    except InputError as error:
        assert settings is BY_CLASS
        assert "always left empty" in str(error)  # noqa: PT017
        return
    assert len(parts) == len(edge_of_device)
    assert_cover(parts, dataset, whole=True)
    if settings is not BY_CLASS:
        assert np.ptp(parts.sizes) <= 1
    again = partition(dataset, settings, edge_of_device, seed)
    for one, two in zip(parts, again, strict=True):
        assert_array_equal(one, two)


@given(case=cases(), labels_per_cluster=st.integers(1, 13))
def test_pathological_clusters_hold_their_labels(case, labels_per_cluster):
    dataset, edge_of_device, seed = case
    settings = PathologicalPartition(labels_per_cluster)
    try:
        parts = partition(dataset, settings, edge_of_device, seed)
    except InputError as error:
        few = min(np.bincount(dataset.train_labels, minlength=dataset.num_classes)) < 25
        assert few or labels_per_cluster > dataset.num_classes
        assert "must be at most the" in str(error) or "at least one per" in str(error)  # noqa: PT017
        return
    assert_cover(parts, dataset, whole=False)
    count, clusters = dataset.num_classes, edge_of_device.max() + 1
    held = np.array([parts.class_counts()[edge_of_device == c].sum(0) for c in range(clusters)])
    total = np.bincount(dataset.train_labels, minlength=count)
    # Where every cluster's labels have samples, its set is a window of LC on one circle of labels.
    assert ((held > 0).sum(1) <= labels_per_cluster).all()
    used = held.sum(0)
    assert all(used[label] in (0, total[label]) for label in range(count))
    if clusters * labels_per_cluster >= count:
        assert_array_equal(used, total)
    for label in range(count):
        shares = held[held[:, label] > 0, label]
        if used[label] >= clusters:
            assert np.ptp(shares) <= 1
    for c in range(clusters):
        assert np.ptp(parts.sizes[edge_of_device == c]) <= 1


@pytest.mark.parametrize("labels_per_cluster", [1, 2, 3, 4, 6, 8, 10])
def test_pathological_label_sets_are_windows_of_one_order(labels_per_cluster):
    dataset, edge_of_device = balanced(240), edges(*[3] * 8)
    parts = partition(dataset, PathologicalPartition(labels_per_cluster), edge_of_device, 5)
    counts = parts.class_counts()
    sets = [set(np.flatnonzero(counts[edge_of_device == c].sum(0))) for c in range(8)]
    # The order of labels can be read off one label per cluster under the same seed.
    single = partition(dataset, PathologicalPartition(1), edges(*[1] * 10), 5).class_counts()
    order = single.argmax(1)
    assert sorted(order) == list(range(10))
    for c in range(8):
        window = {order[(c * labels_per_cluster + j) % 10] for j in range(labels_per_cluster)}
        assert sets[c] == window
    # IID inside a cluster: every device holds every label of its cluster.
    for c in range(8):
        assert (counts[edge_of_device == c][:, sorted(sets[c])] > 0).all()


def test_pathological_uneven_edges_without_devices():
    # Edges 1 and 3 of 10 labels, 5 each: both get the second half of the order.
    parts = partition(balanced(20), PathologicalPartition(5), np.array([3, 3, 1]), 0)
    assert_cover(parts, balanced(20), whole=False)
    assert_array_equal(parts.sizes, [25, 25, 50])


def test_pathological_shares_are_random_inside_a_cluster():
    """Samples in the order of their labels: shares one after the other would hold one label."""
    dataset, edge_of_device = labelled(np.repeat(np.arange(4), 200), 4), edges(4, 4)
    parts = partition(dataset, PathologicalPartition(2), edge_of_device, 0)
    counts = parts.class_counts()
    for c in range(2):
        mine = counts[edge_of_device == c]
        # 100 of 400 samples, 50 of either label in the mean, with a deviation of 4.3.
        assert ((mine > 25) & (mine < 75)).sum(axis=0).tolist().count(4) == 2
    other = partition(dataset, PathologicalPartition(2), edge_of_device, 1)
    assert any(set(one) != set(two) for one, two in zip(parts, other, strict=True))


def test_iid_shares_are_random_not_contiguous():
    dataset = labelled(np.repeat(np.arange(10), 100), 10)
    counts = partition(dataset, IidPartition(), edges(5, 5), 0).class_counts()
    # 100 of 1,000 samples, each label 10 in the mean; contiguous shards would hold one label.
    assert counts.min() >= 1
    assert counts.max() <= 25


def test_dirichlet_devices_have_the_right_spread():
    # Plenty of every class, so that none runs out: counts are Dirichlet-multinomial. The variance
    # of a Dirichlet(1, ..., 1) proportion over K = 10 is (1/K)(1 - 1/K)/(K + 1) = 0.00818, and
    # of 200 draws from it 0.1 * 0.9 / 200 more on top of (1 - 1/200) of that.
    labels = np.concatenate([np.arange(10).repeat(4000)])
    dataset = labelled(labels, 10)
    parts = partition(dataset, BY_DEVICE, edges(*[20] * 10), 0)
    share = parts.class_counts() / parts.sizes[:, None]
    expected = 0.1 * 0.9 / 11 * (1 - 1 / 200) + 0.1 * 0.9 / 200
    first = share[parts.class_counts().min(1) > 0]  # untouched by what has run out
    assert_allclose(share.mean(0), 0.1, atol=1e-12)
    assert 0.7 < share.var() / expected < 1.3
    assert len(first)


@pytest.mark.parametrize("form", ["device", "class"])
def test_concentration_runs_from_one_class_to_even(form):
    dataset, where = balanced(1000), edges(5, 5)
    even = partition(dataset, DirichletPartition(1e6, form), where, 0).class_counts()
    assert np.abs(even - 100).max() < 60
    skewed = partition(dataset, DirichletPartition(0.3, form), where, 0).class_counts()
    assert skewed.max() > 350
    if form == "device":
        for tiny in (5e-324, 1e-300, 1e-10, 1e-3):
            parts = partition(dataset, DirichletPartition(tiny, form), where, 0)
            assert_cover(parts, dataset, whole=True)
            assert (parts.class_counts() > 0).sum(1).min() <= 2


def test_dirichlet_by_class_splits_by_its_own_draw():
    dataset, where = balanced(3000), edges(10, 10)
    counts = partition(dataset, BY_CLASS, where, 3).class_counts()
    share = counts / 3000
    # Over 20 devices: mean 1/20, variance (1/20)(19/20)/21; 200 values, correlated a little.
    assert_allclose(share.sum(0), 1.0)
    assert 0.5 < share.var() / (0.05 * 0.95 / 21) < 1.6
    assert np.ptp(counts.sum(1)) > 100  # sizes are uneven here


def test_leftovers_fall_on_random_devices():
    # Whoever comes last gets what is left: it must not always be the last edge.
    worst = []
    for seed in range(12):
        counts = partition(balanced(50), BY_DEVICE, edges(5, 5), seed).class_counts()
        worst.append(int((counts == 0).sum(1).argmax()))
    assert len(set(worst)) > 4


def test_empty_devices_are_refused():
    with pytest.raises(InputError, match="some device of 30 was always left empty; raise"):
        partition(balanced(20), DirichletPartition(0.001, "class"), edges(30), 0)
    with pytest.raises(InputError, match="labels_per_cluster = 11: must be at most the 10 classes"):
        partition(balanced(2), PathologicalPartition(11), edges(2, 2), 0)
    with pytest.raises(InputError, match="edge 0 has 3 samples: at least one per device"):
        partition(balanced(3), PathologicalPartition(1), edges(4, 1), 0)


@pytest.mark.parametrize(
    "settings", [IidPartition(), BY_DEVICE, BY_CLASS, PathologicalPartition(3)]
)
def test_seeds_change_the_partition(settings):
    dataset, where = balanced(60), edges(2, 3, 2)
    seen = {
        np.concatenate(list(partition(dataset, settings, where, s))).tobytes() for s in range(6)
    }
    assert len(seen) == 6


def test_a_device_mix_stays_when_devices_join():
    """The class mix belongs to the device, whoever else is there."""
    dataset = balanced(5000)
    few, many = (partition(dataset, BY_DEVICE, edges(n), 0).class_counts()[:5] for n in (250, 400))
    share = [counts / counts.sum(1, keepdims=True) for counts in (few, many)]
    assert np.corrcoef(share[0].ravel(), share[1].ravel())[0, 1] > 0.8


def test_writers():
    writer = np.random.default_rng(1).integers(0, 6, 200)
    dataset = labelled(np.arange(200) % 10, 10, writer)
    parts = partition(dataset, WriterPartition(), edges(3, 3), 0)
    assert_cover(parts, dataset, whole=True)
    for device, part in enumerate(parts):
        assert set(writer[part]) == {device}
    with pytest.raises(InputError, match="has 6 writers: must be one per device"):
        partition(dataset, WriterPartition(), edges(3, 4), 0)
    with pytest.raises(InputError, match="have no writers"):
        partition(balanced(5), WriterPartition(), edges(3, 3), 0)


def test_a_scenario_is_loaded_and_divided():
    scenario = load_scenario("quickstart")
    dataset, parts = load_divided(scenario.learning, None, edges(*[6] * 5), 0)
    assert dataset.name == "digits"
    assert len(parts) == 30
    assert_cover(parts, dataset, whole=True)
    assert_array_equal(parts[3], list(parts)[3])
    assert len(parts[2:5]) == 3


def test_a_bootstrap_is_drawn_with_replacement_and_keyed_by_device():
    """More devices than samples; a larger fleet has the same first devices; classes come evenly."""
    dataset = balanced(20)
    settings = BootstrapPartition(30)
    small, large = (partition(dataset, settings, edges(n, n), 3) for n in (200, 300))
    assert len(small) == 400 > len(dataset.train_labels)
    assert set(small.sizes.tolist()) == {30}
    for device in (0, 7, 399):
        np.testing.assert_array_equal(small[device], large[device])
        assert (np.diff(small[device]) >= 0).all()
    assert any(len(np.unique(part)) < 30 for part in small)
    counts = small.class_counts().sum(0) / small.sizes.sum()
    # 12,000 draws of ten classes: 0.1 each, within four standard deviations of 0.0027.
    np.testing.assert_allclose(counts, 0.1, atol=0.011)
    other = partition(dataset, settings, edges(200, 200), 4)
    assert (small.samples != other.samples).any()
