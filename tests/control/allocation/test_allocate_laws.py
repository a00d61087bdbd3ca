"""Laws of `allocate` whatever the data: monotone, unmoved by labels and batching, optimal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instances import BUDGETS, DEVICE_COLUMNS, join, ordinary_case, wide_case
from support.allocations import least_times_s, times_s

from fedrt.control.allocation.allocate import allocate

pytestmark = pytest.mark.numerical

CASES = st.builds(
    lambda seed, size, kind, wide: (wide_case if wide else ordinary_case)(
        np.random.default_rng(seed), size, kind
    ),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from(BUDGETS),
    st.booleans(),
)
FITTING = CASES.filter(lambda case: case.label != "too little")
# A time may come out longer by rounding alone.
ROUNDING = 1e-12


@given(FITTING, st.floats(1.0, 1e3))
def test_more_bandwidth_is_never_slower(case, factor):
    more = replace(case.seen, edge_bandwidth_hz=case.seen.edge_bandwidth_hz * factor)
    before = least_times_s(case.seen, allocate(case.seen, case.allowance_j))
    after = least_times_s(more, allocate(more, case.allowance_j))
    assert np.all(after <= before * (1 + ROUNDING))


@given(FITTING, st.floats(0.0, 1e3), st.integers(0, 8))
def test_more_energy_is_never_slower(case, extra, device):
    more = case.allowance_j.copy()
    more[device % len(more)] *= 1 + extra
    before = least_times_s(case.seen, allocate(case.seen, case.allowance_j))
    after = least_times_s(case.seen, allocate(case.seen, more))
    assert np.all(after <= before * (1 + ROUNDING))


@given(CASES, st.randoms(use_true_random=False))
def test_relabelling_devices_permutes_the_answer(case, random):
    order = list(range(case.seen.num_devices))
    random.shuffle(order)
    columns = {name: getattr(case.seen, name)[order] for name in DEVICE_COLUMNS}
    plain = allocate(case.seen, case.allowance_j)
    moved = allocate(replace(case.seen, **columns), case.allowance_j[order])
    np.testing.assert_array_equal(moved.relaxed, plain.relaxed)
    # Sums in another order round differently; near the edge of feasibility that is amplified.
    np.testing.assert_allclose(moved.bandwidth_hz, plain.bandwidth_hz[order], rtol=1e-8)
    np.testing.assert_allclose(moved.cpu_hz, plain.cpu_hz[order], rtol=1e-8)


@given(st.lists(CASES, min_size=2, max_size=6))
def test_batching_clusters_changes_nothing(cases):
    together = allocate(*(lambda j: (j.seen, j.allowance_j))(join(cases)))
    alone = [allocate(case.seen, case.allowance_j) for case in cases]
    for field in ("bandwidth_hz", "cpu_hz", "relaxed"):
        apart = np.concatenate([getattr(plan, field) for plan in alone])
        np.testing.assert_array_equal(getattr(together, field), apart)


@given(FITTING)
@settings(max_examples=300)
def test_conditions_of_optimality(case):
    """All bandwidth is used; a device ends at tau or, at f_min, sends as long as it can afford.

    A device that ends at tau runs at f_max or spends its whole allowance. Together with
    feasibility these conditions leave only the optimum.
    """
    seen, plan = case.seen, allocate(case.seen, case.allowance_j)
    compute_s, upload_s = times_s(seen, plan)
    tau = (compute_s + upload_s).max()
    compute_j = seen.capacitance / 2 * seen.cycles * plan.cpu_hz**2
    energy_j = compute_j + seen.tx_power_w * upload_s
    np.testing.assert_allclose(plan.bandwidth_hz.sum(), seen.edge_bandwidth_hz[0], rtol=1e-12)
    ends_at_tau = compute_s + upload_s >= tau * (1 - 1e-9)
    spends_all = energy_j >= case.allowance_j * (1 - 1e-9)
    saturated = (plan.cpu_hz <= seen.cpu_min_hz * (1 + 1e-12)) & spends_all
    assert np.all(ends_at_tau | saturated)
    assert np.all(~ends_at_tau | (plan.cpu_hz >= seen.cpu_max_hz * (1 - 1e-9)) | spends_all)
    if not ends_at_tau.any():
        pytest.fail("nobody ends at tau")
