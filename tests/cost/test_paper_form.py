"""Bounds of the paper's form: tangents above the rate, cubic laws below measured energy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrt.cost.paper_form import cubic_law_below, rate_line
from fedrt.cost.uplink import rate_bps
from fedrt.world.laws import CUBIC, CpuTables

pytestmark = pytest.mark.numerical

POSITIVE = st.floats(-3, 9).map(lambda power: 10**power)


def test_a_tangent_by_hand():
    # At b0 = g = 1 Hz: R = log2(2) = 1 bit/s and R' = log2(2) - (1/2) / ln 2 = 1 - 0.7213475.
    start, slope = rate_line(np.array([1.0]), np.array([1.0]))
    np.testing.assert_allclose(slope, 1 - 0.5 / np.log(2), rtol=1e-15)
    np.testing.assert_allclose(start, 0.5 / np.log(2), rtol=1e-15)


@given(POSITIVE, POSITIVE, POSITIVE)
def test_no_rate_lies_above_a_tangent(at_hz, other_hz, cn0_hz):
    at, other, cn0 = (np.array([value]) for value in (at_hz, other_hz, cn0_hz))
    start, slope = rate_line(at, cn0)
    assert slope > 0
    assert rate_bps(other, cn0) <= (start + slope * other) * (1 + 1e-12)
    np.testing.assert_allclose(start + slope * at, rate_bps(at, cn0), rtol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_no_measured_energy_lies_below_its_cubic_law(seed, size):
    rng = np.random.default_rng(seed)
    # Convex in the seconds of a cycle: slopes that rise towards zero.
    seconds = np.cumsum(rng.uniform(0.1, 2.0, size)) * 1e-9
    falls = np.sort(rng.uniform(0.01, 5.0, size - 1)) * np.diff(seconds)
    joules = 1e-9 * rng.uniform(0.1, 3) + np.append(np.cumsum(falls[::-1])[::-1], 0.0)
    tables = CpuTables(np.array([CUBIC, 0]), np.array([0, size]), seconds, joules)
    cycles, capacitance = np.array([1e9, 2e9]), np.array([1e-28, 1e-28])
    a, more_j = cubic_law_below(tables, cycles, capacitance)
    assert (a[0], more_j[0]) == (capacitance[0] * cycles[0] / 2, 0.0)
    assert a[1] > 0
    hz = 1 / np.linspace(seconds[0], seconds[-1], 50)
    own_j = cycles[1] * np.interp(1 / hz, seconds, joules)
    assert np.all(a[1] * hz**2 + more_j[1] <= own_j * (1 + 1e-12))
    # It touches: the law is the best of its kind at one point at least.
    assert np.min(own_j - a[1] * hz**2 - more_j[1]) <= 1e-9 * own_j.max()
