"""What a run takes whatever the plan: worked by hand, and what limits leave beyond it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrt.bound.other_laws import LEAST_PART, Fixed
from fedrt.world.laws import Laws
from fedrt.world.observation import Menu, Observation

SEEN = Observation(
    model_bits=1e6,
    local_steps=1,
    gossip_steps=1,
    edge_of_device=np.array([0, 0]),
    cycles=np.full(2, 1e9),
    snr=np.ones(2),
    tx_power_w=np.array([0.2, 0.1]),
    capacitance=np.full(2, 1e-28),
    cpu_min_hz=np.full(2, 1e9),
    cpu_max_hz=np.full(2, 3e9),
    edge_bandwidth_hz=np.array([1e6, 1e6]),
    laws=Laws(
        listen_s=np.array([1.0, 3.0]),
        rx_power_w=np.array([0.5, 0.4]),
        idle_power_w=np.array([0.1, 0.0]),
        overhead_s=2.0,
    ),
)
"""Two devices on the first of two servers. Both listen for the 3 s of the slower one."""


def test_broadcasts_overheads_and_waiting_are_added_up_over_the_run():
    """Per edge round 3 s and 2 s; 1.5 J and 0.2 J of the first device, 1.2 J of the second.

    Computing takes 0.01 J and 0.02 J beyond its cubic law. Two global rounds of two edge rounds.
    """
    fixed = Fixed.of([SEEN] * 4, 2, np.array([0.01, 0.02]))
    np.testing.assert_allclose(fixed.time_s, [[10.0, 0.0]] * 2)
    np.testing.assert_allclose(fixed.energy_j, [4 * 1.71, 4 * 1.22])


def test_who_is_not_there_spends_nothing():
    second = SEEN.only(np.array([False, True]))
    fixed = Fixed.of([SEEN, second], 1, np.zeros(2))
    np.testing.assert_allclose(fixed.energy_j, [1.7, 2.4])


@pytest.mark.parametrize(("bits", "least_s"), [(None, 1.0), (np.array([4e5, 8e5]), 0.4)])
def test_with_power_control_an_upload_takes_what_it_would_over_any_bandwidth(bits, least_s):
    """C/N0 over ln 2 is the greatest rate at full power: here 1e6 bit/s. Of a menu the fewest."""
    menu = None if bits is None else Menu(("int4", "int8"), bits, np.array([0.1, 0.0]), 0.1)
    laws = Laws(cn0_hz=np.full(2, 1e6 * np.log(2)), power_control=True)
    fixed = Fixed.of([replace(SEEN, laws=laws)] * 3, 1, np.zeros(2), menu)
    np.testing.assert_allclose(fixed.energy_j, 3 * least_s * np.array([0.2, 0.1]), rtol=1e-9)


def test_limits_leave_what_is_not_fixed_or_a_trace():
    fixed = Fixed(np.zeros((1, 1)), np.array([1.0, 5.0, 2.0]))
    left_j = fixed.limits_j(np.array([3.0, 4.0, np.inf]))
    np.testing.assert_allclose(left_j, [2.0, 4.0 * LEAST_PART, np.inf])
