"""Thinning and packing: what is left is what was there, held to slow and obvious twins."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrt.report.page.encode import number, packed, page_json
from fedrt.report.page.thin import bins, carried_on, extremes, mean_by, some_rounds

finite = st.floats(-1e6, 1e6)


@given(arrays(np.float64, st.integers(1, 400), elements=finite), st.integers(4, 60))
def test_extremes_keep_ends_and_peaks_and_are_few(values, most):
    kept = extremes(values, most)
    assert len(kept) <= max(most, 4)
    assert (np.diff(kept) > 0).all()
    assert {kept[0], kept[-1]} == {0, len(values) - 1}
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()


def test_extremes_of_each_stretch_by_hand():
    # Ten values in at most six: two stretches of five, their least and greatest, and both ends.
    values = np.array([5.0, 1, 5, 9, 5, 5, 7, 5, 2, 5])
    assert extremes(values, 6).tolist() == [0, 1, 3, 6, 8, 9]
    assert extremes(values, 10).tolist() == list(range(10))


@given(st.integers(1, 500), st.integers(1, 90))
def test_bins_cover_every_round_once(rounds, most):
    bin_of_round, first, last = bins(rounds, most)
    assert len(first) == min(rounds, most)
    covered = [t for a, b in zip(first, last, strict=True) for t in range(a, b + 1)]
    assert covered == list(range(rounds))
    assert all(bin_of_round[t] == i for i, a in enumerate(first) for t in range(a, last[i] + 1))
    assert (last - first).max() - (last - first).min() <= 1


@given(st.integers(1, 2000), st.integers(2, 300))
def test_some_rounds_have_both_ends(rounds, most):
    kept = some_rounds(rounds, most)
    assert kept[0] == 0
    assert kept[-1] == rounds - 1
    assert len(kept) == min(rounds, most)


@given(st.lists(st.tuples(st.integers(0, 5), finite), max_size=30))
def test_means_are_those_of_a_loop(pairs):
    index = np.array([i for i, _ in pairs], dtype=np.int64)
    values = np.array([value for _, value in pairs])
    for i, mean in enumerate(mean_by(index, values, 6)):
        own = [value for k, value in pairs if k == i]
        assert np.isnan(mean) if not own else mean == pytest.approx(np.mean(own), abs=1e-6)


def test_missing_values_carry_on():
    nan = np.nan
    rows = np.array([[nan, 1], [2, nan], [nan, 3], [nan, nan]])
    np.testing.assert_array_equal(carried_on(rows), [[nan, 1], [2, 1], [2, 3], [2, 3]])


def test_packed_arrays_read_back():
    ((kind, text),) = packed(np.array([[1.5, np.inf], [np.nan, -2]])).items()
    assert kind == "f32"
    back = np.frombuffer(base64.b64decode(text), dtype="<f4")
    np.testing.assert_array_equal(back, np.array([1.5, np.inf, np.nan, -2], dtype=np.float32))


@given(st.text(max_size=50))
def test_no_text_can_end_the_script_it_stands_in(text):
    said = page_json({"name": text, "bad": "</script><!--&"})
    assert not set(said) & set("<>&")
    assert said.isascii()
    assert json.loads(said)["name"] == text


def test_numbers_that_json_cannot_say_are_none():
    assert [number(v) for v in (1, 2.5, np.nan, np.inf, "3", None, True)] == [
        *(1.0, 2.5, None, None, None, None, None)
    ]
