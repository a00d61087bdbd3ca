"""Partitions: which device holds which training samples.

All draws are keyed by the seed and by what is drawn. No sample is given twice, except by the
bootstrap, which draws with replacement; IID, both Dirichlet forms and the writers give every
sample, the pathological scheme those of the labels in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from fedrt.data.catalogue import Dataset, load_dataset
from fedrt.errors import InputError
from fedrt.scenario.model import (
    BootstrapPartition,
    DirichletPartition,
    IidPartition,
    Learning,
    Partition,
    PathologicalPartition,
    WriterPartition,
)
from fedrt.seeding import stream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_REDRAWS = 1000
FIELD = "scenario.learning.partition"


@dataclass(frozen=True, eq=False)
class Parts(Sequence[IntArray]):
    """The numbers of every device's training samples, in rising order, as a sequence.

    They lie in one array, device after device: fleets may be large.
    """

    samples: IntArray
    cuts: IntArray
    """Device i holds `samples[cuts[i] : cuts[i + 1]]`."""
    labels: IntArray
    num_classes: int
    edge_of_device: IntArray

    @overload
    def __getitem__(self, device: int) -> IntArray: ...
    @overload
    def __getitem__(self, device: slice) -> tuple[IntArray, ...]: ...
    def __getitem__(self, device: int | slice) -> IntArray | tuple[IntArray, ...]:
        if isinstance(device, slice):
            return tuple(self[i] for i in range(len(self))[device])
        place = range(len(self))[device]
        return self.samples[self.cuts[place] : self.cuts[place + 1]]

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __iter__(self) -> Iterator[IntArray]:
        return (self[device] for device in range(len(self)))

    @property
    def sizes(self) -> IntArray:
        """The number of samples on each device."""
        return np.diff(self.cuts)

    def class_counts(self) -> IntArray:
        """The number of samples of each class on each device, devices x classes."""
        device = np.repeat(np.arange(len(self)), self.sizes)
        flat = device * self.num_classes + self.labels[self.samples]
        size = len(self) * self.num_classes
        return np.bincount(flat, minlength=size).reshape(-1, self.num_classes)


def load_divided(
    learning: Learning, data_dir: Path | None, edge_of_device: IntArray, seed: int
) -> tuple[Dataset, Parts]:
    """The data set of a scenario and its partition over devices.

    Under the writer partition the data set is that of the run's own writers, one per device.
    """
    by_writer = isinstance(learning.partition, WriterPartition)
    writers = len(edge_of_device) if by_writer else None
    dataset = load_dataset(learning.dataset, data_dir, writers, seed)
    return dataset, partition(dataset, learning.partition, edge_of_device, seed)


def partition(dataset: Dataset, settings: Partition, edge_of_device: IntArray, seed: int) -> Parts:
    """Every device's training samples; an error if a device would get none."""
    edge_of_device = np.asarray(edge_of_device)
    devices, count = len(edge_of_device), len(dataset.train_labels)
    labels, classes = dataset.train_classes, dataset.num_classes
    if labels is None:
        if isinstance(settings, DirichletPartition | PathologicalPartition):
            rule = "needs samples of one class each; use iid, owner or bootstrap"
            raise InputError(f'{FIELD}.kind = "{settings.kind}": {rule}')
        labels, classes = np.zeros(count, dtype=np.int64), 1
    if isinstance(settings, BootstrapPartition):
        samples = _bootstrap(len(labels), devices, settings.samples_per_device, seed)
        cuts = settings.samples_per_device * np.arange(devices + 1)
        return Parts(samples, cuts, labels, classes, edge_of_device)
    if devices > len(labels):
        rule = f"at least one per device ({devices})"
        raise InputError(f"{dataset.name}: has {len(labels)} training samples: must be {rule}")
    match settings:
        case IidPartition():
            holders = _iid(len(labels), devices, seed)
        case DirichletPartition(form="class"):
            holders = _dirichlet_by_class(dataset, settings.concentration, devices, seed)
        case DirichletPartition():
            holders = _dirichlet_by_device(dataset, settings.concentration, devices, seed)
        case PathologicalPartition():
            holders = _pathological(dataset, settings.labels_per_cluster, edge_of_device, seed)
        case _:
            holders = _by_writer(dataset, devices)
    # Samples that nobody holds, -1, come first and are left out.
    order = np.argsort(holders, kind="stable")[np.count_nonzero(holders < 0) :]
    cuts = np.searchsorted(holders[order], np.arange(devices + 1))
    empty = np.flatnonzero(np.diff(cuts) == 0)
    if empty.size:
        also = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise InputError(f"{FIELD} of {dataset.name}: device {empty[0]}{also} would hold no sample")
    return Parts(order, cuts, labels, classes, edge_of_device)


def hold_out(parts: Parts, share: float, seed: int) -> tuple[Parts, Parts]:
    """The parts that train and those that are held out, a share of each device's own samples.

    Which ones is drawn for each device by itself. A sample that a device holds several times stays
    on one side. One of which there is no other keeps it for training, and has nothing held out.
    """
    train: list[IntArray] = []
    held: list[IntArray] = []
    for device, samples in enumerate(parts):
        different = np.unique(samples)
        count = min(max(1, round(share * len(different))), len(different) - 1)
        drawn = stream(seed, "held out", device).permutation(different)[:count]
        out = np.isin(samples, drawn)
        train.append(samples[~out])
        held.append(samples[out])
    return _with_samples(parts, train), _with_samples(parts, held)


def _with_samples(parts: Parts, each: list[IntArray]) -> Parts:
    cuts = np.concatenate(([0], np.cumsum([len(samples) for samples in each])))
    return replace(parts, samples=np.concatenate(each), cuts=cuts)


def _bootstrap(count: int, devices: int, each: int, seed: int) -> IntArray:
    """Every device's samples as independent draws from all samples, with replacement.

    Row i of the stream is device i's, whatever the fleet's size.
    """
    drawn = stream(seed, "partition bootstrap").integers(count, size=(devices, each))
    drawn.sort(axis=1)
    return drawn.reshape(-1)


def _even_sizes(count: int, shares: int) -> IntArray:
    """`count` divided into whole shares that differ by at most one."""
    return np.arange(count, count + shares) // shares


def _iid(count: int, devices: int, seed: int) -> IntArray:
    """The device of every sample: equal random shares."""
    holders = np.empty(count, dtype=np.int64)
    mixed = stream(seed, "partition iid").permutation(count)
    holders[mixed] = np.repeat(np.arange(devices), _even_sizes(count, devices))
    return holders


def _mixed_classes(dataset: Dataset, seed: int) -> list[IntArray]:
    """The samples of every class, each class in a random order."""
    labels = dataset.train_labels
    order = np.argsort(labels, kind="stable")
    cuts = np.searchsorted(labels[order], np.arange(dataset.num_classes + 1))
    return [
        stream(seed, "partition class", label).permutation(order[cuts[label] : cuts[label + 1]])
        for label in range(dataset.num_classes)
    ]


def _proportions(rng: np.random.Generator, concentration: float, count: int) -> FloatArray:
    """One symmetric Dirichlet draw; with almost no concentration, all on one entry."""
    drawn = rng.dirichlet(np.full(count, concentration))
    if np.isfinite(drawn).all() and drawn.sum() > 0.5:
        return drawn
    return np.eye(count)[rng.integers(count)]


def _dirichlet_by_device(
    dataset: Dataset, concentration: float, devices: int, seed: int
) -> IntArray:
    """The device of every sample after Hsu et al.: each device draws its class proportions.

    Device by device in a random order, so that what is left over at the end falls to no edge more
    than to another, samples are drawn by that mix without replacement; a class that has run out
    leaves the mix, and the rest is scaled up. Drawing a device's whole share at once and redrawing
    what a class could not give has the same distribution as one sample after the other.
    """
    classes = _mixed_classes(dataset, seed)
    left = np.array([len(samples) for samples in classes])
    holders = np.empty(len(dataset.train_labels), dtype=np.int64)
    sizes = _even_sizes(len(holders), devices)
    for device in stream(seed, "partition turn").permutation(devices):
        size = sizes[device]
        rng = stream(seed, "class mix", int(device))
        mix = _proportions(rng, concentration, len(classes))
        taken = np.zeros_like(left)
        while (need := int(size - taken.sum())) > 0:
            open_mix = np.where(left > taken, mix, 0.0)
            if open_mix.sum() <= 0:
                # Nothing it wants is left: what there is, in proportion.
                open_mix = (left - taken).astype(np.float64)
            drawn = rng.multinomial(need, open_mix / open_mix.sum())
            taken = np.minimum(taken + drawn, left)
        for label in np.flatnonzero(taken):
            end = int(left[label])
            holders[classes[label][end - taken[label] : end]] = device
        left -= taken
    return holders


def _dirichlet_by_class(
    dataset: Dataset, concentration: float, devices: int, seed: int
) -> IntArray:
    """The device of every sample: each class is divided among devices by a Dirichlet draw.

    Drawn again, all classes, until nobody is empty.
    """
    classes = _mixed_classes(dataset, seed)
    for attempt in range(MOST_REDRAWS):
        cuts = []
        for label, samples in enumerate(classes):
            rng = stream(seed, "class split", label, attempt)
            share = _proportions(rng, concentration, devices)
            ends = np.rint(np.cumsum(share) * len(samples)).astype(np.int64)
            ends[-1] = len(samples)
            cuts.append(np.diff(np.minimum(ends, len(samples)), prepend=0))
        if np.sum(cuts, axis=0).all():
            holders = np.empty(len(dataset.train_labels), dtype=np.int64)
            for samples, sizes in zip(classes, cuts, strict=True):
                holders[samples] = np.repeat(np.arange(devices), sizes)
            return holders
    raise InputError(
        f"{FIELD} of {dataset.name}: in {MOST_REDRAWS} draws some device of {devices} was always"
        f" left empty; raise concentration = {concentration:g}, use fewer devices, or form = device"
    )


def _pathological(
    dataset: Dataset, labels_per_cluster: int, edge_of_device: IntArray, seed: int
) -> IntArray:
    """The device of every sample: cluster c holds labels perm[(c LC + j) mod K], j < LC.

    A label's samples are split evenly among its clusters and, inside one, all is IID. Labels of
    no cluster are left out (-1).
    """
    count = dataset.num_classes
    if labels_per_cluster > count:
        path = f"{FIELD}.labels_per_cluster = {labels_per_cluster}"
        raise InputError(f"{path}: must be at most the {count} classes of {dataset.name}")
    order = stream(seed, "label order").permutation(count)
    clusters = np.unique(edge_of_device)
    clusters_of_label: list[list[int]] = [[] for _ in range(count)]
    for c in clusters:
        for j in range(labels_per_cluster):
            clusters_of_label[order[(int(c) * labels_per_cluster + j) % count]].append(int(c))
    pools: dict[int, list[IntArray]] = {int(c): [] for c in clusters}
    for samples, holding in zip(_mixed_classes(dataset, seed), clusters_of_label, strict=True):
        if holding:
            for c, share in zip(holding, np.array_split(samples, len(holding)), strict=True):
                pools[c].append(share)
    holders = np.full(len(dataset.train_labels), -1, dtype=np.int64)
    for c, shares in pools.items():
        members = np.flatnonzero(edge_of_device == c)
        pool = np.sort(np.concatenate(shares))
        if len(pool) < len(members):
            rule = f"at least one per device ({len(members)})"
            raise InputError(f"{FIELD} of {dataset.name}: edge {c} has {len(pool)} samples: {rule}")
        mixed = stream(seed, "partition cluster", c).permutation(pool)
        holders[mixed] = np.repeat(members, _even_sizes(len(pool), len(members)))
    return holders


def _by_writer(dataset: Dataset, devices: int) -> IntArray:
    """The device of every sample: device i holds the samples of the i-th writer."""
    if dataset.train_writer is None:
        raise InputError(f"{FIELD}: the samples of {dataset.name} have no writers or owners")
    names, holders = np.unique(dataset.train_writer, return_inverse=True)
    if len(names) != devices:
        rule = f"one per device ({devices})"
        raise InputError(f"{FIELD} of {dataset.name}: has {len(names)} writers: must be {rule}")
    return holders.astype(np.int64)
