"""What a choice of codecs has to keep: the distortion limit, and the allowances of energy."""

from __future__ import annotations

import numpy as np
import pytest
from support.coding import earliest_of_all, end_s, random_choice

from fedrt.control.coding.choice import Coding
from fedrt.cost.round import fixed_energy_j
from fedrt.world.laws import Laws

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("seed", range(6))
def test_devices_without_a_choice_lend_no_distortion_to_the_others(seed):
    """Cluster 0 keeps the uniform codec, whose distortion is the limit: none of it is left over."""
    coding, offset_s = random_choice(seed, (4, 2, 2))
    held = Coding(coding.seen, coding.cap_j, held=np.array([True, False, False]))
    free = coding.seen.edge_of_device > 0
    menu = coding.menu
    later_s = np.random.default_rng(seed).uniform(2, 6, (10, 3))
    for codec in (held.earliest(offset_s)[0], held.expected(offset_s, later_s, 0.3)):
        assert (codec[~free] == menu.uniform).all()
        assert menu.distortion[codec[free]].mean() <= menu.limit * (1 + 1e-9)
    # Nobody waits for the cluster without a choice: what is found is the best there is.
    offset_s[0] = -100.0
    codec, found_s = held.earliest(offset_s)
    assert found_s == pytest.approx(earliest_of_all(coding, offset_s, free), rel=1e-8)


RNG = np.random.default_rng(7)
FIXED = {
    "listening": Laws(listen_s=RNG.uniform(0.5, 4, 5), rx_power_w=np.full(5, 0.4), overhead_s=0.5),
    "idle": Laws(idle_power_w=np.full(5, 0.3), overhead_s=2.0),
}
"""Laws by which every device spends energy that no allocation changes."""


@pytest.mark.parametrize("law", FIXED)
@pytest.mark.parametrize("seed", range(5))
def test_energy_that_nothing_changes_is_not_there_to_choose_with(seed, law):
    """Exhaustive search finds nothing better within the caps, and one codec for all is worse."""
    coding, offset_s = random_choice(seed, (2, 3), FIXED[law], (1.0, 1.3))
    assert (fixed_energy_j(coding.seen) > 0.05 * coding.cap_j).any()
    codec, found_s = coding.earliest(offset_s)
    best_s = earliest_of_all(coding, offset_s, np.ones(5, dtype=bool))
    assert found_s == pytest.approx(best_s, rel=1e-8)
    assert end_s(coding, codec, offset_s) == pytest.approx(best_s, rel=1e-8)
    assert best_s < 0.999 * end_s(coding, coding.uniform, offset_s)


# --- other laws: what the choice takes for affordable need not be --------------------------------


def noisy(seed: int) -> tuple[Coding, np.ndarray, np.ndarray]:
    """Noise spread over the bandwidth: the choice knows a tangent of the rate, not the rate.

    And samples of what follows the edge round.
    """
    rng = np.random.default_rng(seed)
    cn0_hz = 10 ** rng.uniform(4, 5, 7)
    return *random_choice(seed, (3, 2, 2), Laws(cn0_hz=cn0_hz), (0.1, 1.05)), rng.uniform(
        2, 6, (10, 3)
    )


def test_clusters_that_could_not_keep_their_caps_go_back_to_one_codec():
    """The finest codec for all of cluster 0 takes more than it may spend; the others get int4."""
    coding, _, _ = noisy(0)
    finest, coarse = len(coding.menu.bits) - 1, coding.menu.names.index("int4")
    wanted = np.array([finest] * 3 + [coding.menu.uniform, coarse] * 2)
    assert end_s(coding, wanted, np.zeros(3)) == np.inf
    codec = coding._within_caps(wanted)
    assert (codec[:3] == coding.menu.uniform).all()
    np.testing.assert_array_equal(codec[3:], wanted[3:])
    assert np.isfinite(end_s(coding, codec, np.zeros(3)))


def test_if_the_others_then_break_the_limit_all_go_back_to_one_codec():
    """The others counted on what the finest codec of cluster 0 took off the mean."""
    coding, _, _ = noisy(0)
    finest, coarse = len(coding.menu.bits) - 1, coding.menu.names.index("int4")
    wanted = np.array([finest] * 3 + [coarse] * 4)
    without = np.where(np.arange(7) < 3, coding.menu.uniform, wanted)
    assert coding.menu.distortion[without].mean() > coding.menu.limit
    np.testing.assert_array_equal(coding._within_caps(wanted), coding.uniform)


def test_codecs_that_can_be_afforded_stay():
    coding, _, _ = noisy(0)
    wanted = np.where(np.arange(7) % 2 == 0, coding.menu.names.index("int4"), coding.menu.uniform)
    np.testing.assert_array_equal(coding._within_caps(wanted), wanted)


def test_no_choice_under_other_laws_breaks_a_cap(monkeypatch):
    """And what the choice takes for the best at first would do so at times."""
    broken = {"earliest": 0, "expected": 0}
    for seed in range(12):
        coding, offset_s, later_s = noisy(seed)
        assert not coding._uniform_least[0].relaxed.any()
        for codec in (coding.earliest(offset_s)[0], coding.expected(offset_s, later_s, 0.3)):
            assert np.isfinite(end_s(coding, codec, offset_s))
            assert coding.menu.distortion[codec].mean() <= coding.menu.limit * (1 + 1e-9)
        with monkeypatch.context() as patch:
            patch.setattr(Coding, "_within_caps", lambda self, codec: codec)
            first = coding.expected(offset_s, later_s, 0.3)
        broken["expected"] += end_s(coding, first, offset_s) == np.inf
        broken["earliest"] += end_s(coding, coding._earliest(offset_s)[0], offset_s) == np.inf
    assert all(broken.values())
