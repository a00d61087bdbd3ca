"""Which device is of which class: how many of each are in each cluster. Nothing is drawn.

Classes that name their `edges` come first, in the order in which they are given, those with the
same edges together; then those without. Each such group takes its counts, then its shares of what
is left in its clusters, by largest remainders, and one class without either takes the rest. A
number of devices over several clusters is spread in proportion to the devices left in each, again
by largest remainders. In a cluster devices stand in the order of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.scenario.classes import DeviceClass
from fedrt.seeding import stream

if TYPE_CHECKING:
    from fedrt.scenario.model import Fleet

IntArray = NDArray[np.int64]
NEAR_ONE = 1e-9
PATH = "scenario.fleet.classes"


def cluster_sizes(fleet: Fleet) -> IntArray:
    """The number of devices of each edge server; none is zero."""
    if not isinstance(fleet.cluster_sizes, str):
        return np.array(fleet.cluster_sizes)
    weight = np.ones(fleet.num_edges)
    if fleet.cluster_sizes == "uneven":
        # A property of the scenario, not of the run: the same whatever the seed.
        weight = 0.2 + 1.6 * stream(0, "cluster sizes").random(fleet.num_edges)
    spread = fleet.num_devices - fleet.num_edges
    exact = spread * weight / weight.sum()
    sizes = np.floor(exact).astype(np.int64)
    remainder = np.argsort(-(exact - sizes), kind="stable")[: spread - int(sizes.sum())]
    sizes[remainder] += 1
    return sizes + 1


def class_of_devices(fleet: Fleet) -> IntArray:
    """The number of every device's class; all 0 for a fleet without classes."""
    classes, sizes = fleet.classes or (), cluster_sizes(fleet)
    if not classes:
        return np.zeros(fleet.num_devices, dtype=np.int64)
    numbers = np.tile(np.arange(len(classes)), len(sizes))
    return np.repeat(numbers, place(classes, sizes, []).ravel())


def class_counts(fleet: Fleet) -> dict[str, int]:
    """How many devices are of each class, by its name."""
    classes = fleet.classes or ()
    counts = np.bincount(class_of_devices(fleet), minlength=len(classes)).tolist()
    return {each.name: counts[k] for k, each in enumerate(classes)}


def listed_for(values: Sequence[float], keys: IntArray) -> NDArray[np.float64]:
    """The values of these devices in a list that has one for each of them, or for all devices."""
    listed = np.array(values)
    return listed if len(listed) == len(keys) else listed[keys]


def place(classes: Sequence[DeviceClass], sizes: IntArray, problems: list[str]) -> IntArray:
    """The devices of each class in each cluster, edges x classes.

    What does not fit is added to `problems` in lines, and the array is then worth nothing.
    """
    placed = np.zeros((len(sizes), len(classes)), dtype=np.int64)
    free = sizes.copy()
    groups: dict[tuple[int, ...] | None, list[int]] = {}
    for k, each in enumerate(classes):
        groups.setdefault(None if each.edges is None else tuple(sorted(each.edges)), []).append(k)
    everywhere = groups.pop(None, None)
    for edges, members in (*groups.items(), (None, everywhere)):
        where = np.arange(len(sizes)) if edges is None else np.array(edges)
        if members is not None:
            some = [classes[k] for k in members]
            taken = _Group(some, free[where], last=edges is None).placed(problems)
            placed[np.ix_(where, np.array(members))] = taken
            free[where] -= taken.sum(1)
    if not problems and free.any():
        c = int(np.argmax(free > 0))
        problems.append(
            f"{PATH}: {int(free.sum())} devices are of no class, the first in the cluster of edge"
            f" {c}: must be of one; leave out share, count and edges of a class that takes the rest"
        )
    return placed


class _Group:
    """Classes that may be in the same clusters, and the devices that are left in these."""

    def __init__(self, classes: Sequence[DeviceClass], free: IntArray, *, last: bool) -> None:
        self.classes, self.free, self.last = classes, free.copy(), last
        self.counts = np.zeros((len(free), len(classes)), dtype=np.int64)

    def placed(self, problems: list[str]) -> IntArray:
        """The devices of each class in each cluster of the group."""
        before = len(problems)
        # Those that must be in every cluster have the least choice.
        for per_edge in (True, False):
            for k, each in enumerate(self.classes):
                if each.count is not None and each.per_edge == per_edge:
                    self._count(k, each.count, problems)
        shared = [k for k, each in enumerate(self.classes) if each.share is not None]
        rest = [k for k, each in enumerate(self.classes) if each.share is each.count is None]
        problems += self._share_problems(shared, rest)
        if len(problems) > before:
            return self.counts
        if shared:
            self._share(shared)
        for k in rest:
            self._take(k, self.free.copy())
        return self.counts

    def _take(self, k: int, number: IntArray) -> None:
        self.counts[:, k] += number
        self.free -= number

    def _count(self, k: int, count: int, problems: list[str]) -> None:
        each = self.classes[k]
        path, left = f"{PATH}.{each.name}.count = {count}", int(self.free.sum())
        if each.per_edge and count > self.free.min():
            least = int(self.free.min())
            problems.append(f"{path}: must be <= {least}, what is left in the smallest cluster")
        elif not each.per_edge and count > left:
            problems.append(f"{path}: must be <= {left}, the devices that are left for it")
        else:
            self._take(k, np.full(len(self.free), count) if each.per_edge else self._spread(count))

    def _share_problems(self, shared: Sequence[int], rest: Sequence[int]) -> list[str]:
        lines = []
        if len(rest) > 1:
            names = " and ".join(self.classes[k].name for k in rest)
            lines.append(f"{PATH}: {names} have neither share nor count: only one takes the rest")
        if len({self.classes[k].per_edge for k in shared}) > 1:
            names = ", ".join(self.classes[k].name for k in shared)
            lines.append(f"{PATH}: per_edge must be the same for classes with shares: {names}")
        total = sum(float(self.classes[k].share or 0) for k in shared)
        text = ", ".join(f"{self.classes[k].name} {self.classes[k].share:g}" for k in shared)
        if total > 1 + NEAR_ONE:
            lines.append(f"{PATH}: the shares {text} add up to {total:g}: must be at most 1")
        elif self.last and shared and not rest and total < 1 - NEAR_ONE and self.free.any():
            lines.append(
                f"{PATH}: the shares {text} add up to {total:g}: must be 1, or a class without"
                " share and count takes the rest"
            )
        return lines

    def _share(self, shared: Sequence[int]) -> None:
        shares = np.array([float(self.classes[k].share or 0) for k in shared])
        weight = np.append(shares, max(0.0, 1 - shares.sum()))
        if self.classes[shared[0]].per_edge:
            numbers = _largest_remainders(weight, self.free)
            for column, k in enumerate(shared):
                self._take(k, numbers[:, column])
            return
        (numbers,) = _largest_remainders(weight, self.free.sum()[None])
        for column, k in enumerate(shared):
            self._take(k, self._spread(int(numbers[column])))

    def _spread(self, number: int) -> IntArray:
        """So many devices over the clusters, in proportion to what is left in each."""
        total = int(self.free.sum())
        if not total:
            return np.zeros_like(self.free)
        whole, part = np.divmod(number * self.free, total)
        more = np.argsort(-part, kind="stable")[: number - int(whole.sum())]
        whole[more] += 1
        return whole


def _largest_remainders(weight: NDArray[np.float64], totals: IntArray) -> IntArray:
    """Every total divided in these proportions, totals x weights: rounded down, and what is left
    goes to the largest remainders, the first among equal ones.
    """
    # 0.29 x 100 is 28.999999999999996, and means 29.
    exact = np.round(totals[:, None] * weight / weight.sum(), 6)
    whole = np.floor(exact).astype(np.int64)
    left = totals - whole.sum(1)
    rank = np.argsort(np.argsort(-(exact - whole), axis=1, kind="stable"), axis=1)
    return whole + (rank < left[:, None])
