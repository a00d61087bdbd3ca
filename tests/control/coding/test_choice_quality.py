"""How good a choice of codecs is: what it predicts, what it saves, and where it is nearly best."""

from __future__ import annotations

import numpy as np
import pytest
from support.coding import (
    allowed_codecs,
    cluster_times_s,
    earliest_of_all,
    end_s,
    random_choice,
)

from fedrt.control.coding.choice import Coding
from fedrt.world.laws import Laws

pytestmark = pytest.mark.numerical

LISTENING = Laws(listen_s=np.array([0.5, 0.5, 4, 4, 4]), rx_power_w=np.full(5, 0.1))


@pytest.mark.parametrize("laws", [None, LISTENING], ids=["paper", "listening"])
@pytest.mark.parametrize("seed", range(6))
def test_times_with_one_codec_for_all_are_those_of_its_allocation(seed, laws):
    coding, offset_s = random_choice(seed, (2, 3), laws)
    np.testing.assert_allclose(coding.uniform_s, cluster_times_s(coding, coding.uniform), 1e-9)
    assert end_s(coding, coding.uniform, offset_s) == pytest.approx(
        float(np.max(offset_s + coding.uniform_s)), rel=1e-9
    )


@pytest.mark.parametrize("laws", [None, LISTENING], ids=["paper", "listening"])
def test_before_the_last_edge_round_the_expected_end_is_nearly_the_least(laws):
    """Over all codecs, of the mean end over what may follow; one codec for all is far from it."""
    ratios, uniform = [], []
    for seed in range(6):
        coding, begin_s = random_choice(seed, (2, 3), laws, (2, 4))
        later_s = np.random.default_rng(seed).uniform(2, 6, (10, 2))

        def expected_s(codec, coding=coding, begin_s=begin_s, later_s=later_s):
            ends_s = begin_s + cluster_times_s(coding, codec) + later_s
            return float(ends_s.max(axis=1).mean())

        least_s = min(map(expected_s, allowed_codecs(coding, np.ones(5, dtype=bool))))
        ratios.append(expected_s(coding.expected(begin_s, later_s, 0.3)) / least_s)
        uniform.append(expected_s(coding.uniform) / least_s)
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) < 1.05
    assert np.mean(ratios) < 1.01
    assert np.mean(uniform) > 1.05


def with_a_cluster_that_keeps_its_codec(seed: int) -> tuple[Coding, np.ndarray]:
    """Cluster 0 keeps one codec; it ends after the others could, and before they do with one."""
    coding, offset_s = random_choice(seed, (3, 6, 6), None, (2, 4))
    held = Coding(coding.seen, coding.cap_j, held=np.array([True, False, False]))
    _, least_s = held.earliest(np.array([-100.0, *offset_s[1:]]))
    most_s = float(np.max((offset_s + held.uniform_s)[1:]))
    offset_s[0] = 0.3 * least_s + 0.7 * most_s - held.uniform_s[0]
    return held, offset_s


@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_wait_use_the_limit_up_and_send_no_more_than_that_takes(seed):
    """They could all end in time with a quarter of the distortion, and so with more bits."""
    coding, offset_s = with_a_cluster_that_keeps_its_codec(seed)
    codec, found_s = coding.earliest(offset_s)
    assert found_s == pytest.approx(offset_s[0] + coding.uniform_s[0], rel=1e-9)
    assert end_s(coding, codec, offset_s) == pytest.approx(found_s, rel=1e-8)
    menu, free = coding.menu, coding.seen.edge_of_device > 0
    mean = menu.distortion[codec[free]].mean()
    assert 0.8 * menu.limit < mean <= menu.limit * (1 + 1e-9)
    assert menu.bits[codec[free]].mean() < menu.bits[menu.uniform]


@pytest.mark.parametrize("seed", range(4))
def test_the_predicted_end_is_that_of_the_last_cluster_also_if_it_has_no_choice(seed):
    coding, offset_s = random_choice(seed, (2, 2, 2))
    held = Coding(coding.seen, coding.cap_j, held=np.array([True, False, False]))
    free = coding.seen.edge_of_device > 0
    for late_s in (-100.0, 0.0, 1.0, 2.0, 3.0, 100.0):
        offset_s[0] = late_s
        codec, found_s = held.earliest(offset_s)
        assert found_s == pytest.approx(end_s(held, codec, offset_s), rel=1e-8)
        assert found_s == pytest.approx(earliest_of_all(held, offset_s, free), rel=1e-8)


def test_under_other_laws_the_earliest_of_all_that_was_tried_is_taken(monkeypatch):
    """One codec for all, and codecs chosen around two allocations; the last is not always best."""
    within_caps = Coding._within_caps
    places = []
    for seed in range(12):
        cn0_hz = 10 ** np.random.default_rng(seed).uniform(4, 7, 7)
        coding, offset_s = random_choice(seed, (3, 2, 2), Laws(cn0_hz=cn0_hz), (0.5, 2))
        tried = [coding.uniform]

        def remembering(self, codec, tried=tried):
            tried.append(within_caps(self, codec))
            return tried[-1]

        with monkeypatch.context() as patch:
            patch.setattr(Coding, "_within_caps", remembering)
            codec, found_s = coding.earliest(offset_s)
        ends_s = [end_s(coding, each, offset_s) for each in tried]
        assert found_s == pytest.approx(min(ends_s), rel=1e-9)
        assert end_s(coding, codec, offset_s) == pytest.approx(min(ends_s), rel=1e-9)
        places.append(min(ends_s) < ends_s[-1] * (1 - 1e-9))
    assert any(places)
