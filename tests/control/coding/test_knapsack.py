"""The knapsack of one cluster: least distortion in a bandwidth, against exhaustive search."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fedrt.control.coding.kernel import CodedDevices, _improve, _level, _price, cluster_coding

pytestmark = pytest.mark.numerical


def cluster(hertz_per_bit: np.ndarray) -> CodedDevices:
    """Devices that compute nothing and spend nothing: in 1 s an upload takes as many hertz."""
    count = len(hertz_per_bit)
    return CodedDevices(
        first=np.array([0, count]),
        b=np.ones(1),
        kappa=hertz_per_bit,
        w=np.zeros(count),
        a=np.ones(count),
        p=np.zeros(count),
        spare_j=np.full(count, np.inf),
        f_min=np.ones(count),
        f_max=np.ones(count),
    )


def menu_of(bits: list[float], distortion: list[float]) -> tuple[np.ndarray, ...]:
    lengths, lost = np.array(bits), np.array(distortion)
    return lengths, lost, -np.diff(lost) / np.diff(lengths)


def solved(hertz_per_bit, bandwidth_hz, menu) -> tuple[np.ndarray, float, bool]:
    """The codecs that the search finds, their distortion, and whether it is proven."""
    codec = np.full(len(hertz_per_bit), -1)
    part = (0, len(hertz_per_bit))
    total, proven = cluster_coding(1.0, part, bandwidth_hz, cluster(hertz_per_bit), menu, codec)
    return codec, total, proven


def without_search(hertz_per_bit, bandwidth_hz, menu) -> float:
    """The distortion that the search starts from: one price for all, and what is left spent."""
    bits, distortion, gain = menu
    x = np.sort(hertz_per_bit)[::-1]
    price = _price(x, bandwidth_hz, bits, gain)
    level = np.array([_level(one, price, gain) for one in x])
    return float(_improve(x, bandwidth_hz, bits, distortion, level))


def exhaustive(hertz_per_bit, bandwidth_hz, menu) -> float:
    bits, distortion, _ = menu
    every = (np.array(codec) for codec in product(range(len(bits)), repeat=len(hertz_per_bit)))
    fits = (codec for codec in every if bits[codec] @ hertz_per_bit <= bandwidth_hz)
    return min(float(distortion[codec].sum()) for codec in fits)


def test_two_devices_worked_out():
    """Hertz to a bit 3 and 2, messages of 1, 2 and 4 bits with distortions 10, 4 and 0; 10 Hz.

    What each pair takes: (1, 1) 5 Hz, 20; (1, 2) 7 Hz, 14; (2, 2) 10 Hz, 8; (1, 4) 11 Hz; (2, 1)
    8 Hz, 14. Two bits each is the best that fits, and uses a device's codec twice.
    """
    menu = menu_of([1.0, 2.0, 4.0], [10.0, 4.0, 0.0])
    codec, total, proven = solved(np.array([3.0, 2.0]), 10.0, menu)
    assert codec.tolist() == [1, 1]
    assert (total, proven) == (8.0, True)


def test_spending_the_rest_on_the_best_gain_is_not_always_best():
    """Hertz to a bit 4, 3 and 3, messages of 1 and 2 bits with distortions 1 and 0; 16 Hz.

    One bit each takes 10 Hz. Of the 6 Hz left two devices of 3 take all; one of 4 leaves 2.
    """
    menu = menu_of([1.0, 2.0], [1.0, 0.0])
    codec, total, _ = solved(np.array([4.0, 3.0, 3.0]), 16.0, menu)
    assert codec.tolist() == [0, 1, 1]
    assert total == 1.0


def test_the_search_is_exact_also_where_the_greedy_choice_is_not():
    rng = np.random.default_rng(0)
    improved = 0
    for _ in range(150):
        count, size = int(rng.integers(3, 6)), int(rng.integers(3, 5))
        bits = np.cumsum(rng.uniform(0.5, 2.0, size))
        gains = np.sort(rng.uniform(0.1, 3.0, size - 1))[::-1] * np.diff(bits)
        distortion = np.concatenate((np.cumsum(gains[::-1])[::-1], [0.0]))
        menu = menu_of(bits.tolist(), distortion.tolist())
        x = rng.uniform(0.5, 3.0, count)
        bandwidth_hz = float(rng.uniform(bits[0], bits[-1]) * x.sum())
        codec, total, proven = solved(x, bandwidth_hz, menu)
        least = exhaustive(x, bandwidth_hz, menu)
        assert proven
        assert bits[codec] @ x <= bandwidth_hz * (1 + 1e-9)
        assert distortion[codec].sum() == pytest.approx(total, rel=1e-12)
        assert total == pytest.approx(least, rel=1e-9)
        improved += without_search(x, bandwidth_hz, menu) > least * (1 + 1e-9)
    # Or else a search that does nothing would pass.
    assert improved > 20


def test_no_message_fits_and_all_fit():
    menu = menu_of([1.0, 2.0], [1.0, 0.0])
    x = np.array([2.0, 1.0])
    assert solved(x, 2.9, menu)[1] == np.inf
    assert solved(x, 3.0, menu)[0].tolist() == [0, 0]
    assert solved(x, 6.0, menu)[0].tolist() == [1, 1]
