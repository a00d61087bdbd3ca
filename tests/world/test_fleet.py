"""The fleet: what is given is kept, what is drawn belongs to its device."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.tiny import tiny

from fedrt.scenario.placing import cluster_sizes
from fedrt.world.fleet import draw_fleet


def test_given_values_are_kept():
    fleet = draw_fleet(tiny("fleet.tx_power_w=[1,2,3,4,5,6,7]"), 0)
    assert_array_equal(fleet.tx_power_w, [1, 2, 3, 4, 5, 6, 7])
    assert_array_equal(fleet.cpu_min_hz, np.full(7, 2e9))
    assert_array_equal(fleet.edge_of_device, [0, 0, 1, 1, 1, 2, 2])
    assert_array_equal(fleet.device_key, np.arange(7))
    assert_array_equal(fleet.edge_key, np.arange(3))


def test_drawn_values_lie_in_their_range_and_move_with_the_seed_only():
    few, many = tiny(), tiny("fleet.num_devices=4000", "fleet.cluster_sizes=even")
    alpha = draw_fleet(many, 0).capacitance
    assert alpha.min() >= 2e-30
    assert alpha.max() < 2e-29
    # Mean 1.1e-29; five standard errors of 1.8e-29 / sqrt(12 x 4000).
    assert abs(alpha.mean() - 1.1e-29) < 5 * 1.8e-29 / np.sqrt(12 * 4000)
    assert_array_equal(draw_fleet(few, 0).capacitance, alpha[:7])
    assert not np.isin(draw_fleet(few, 1).capacitance, alpha).any()


def test_two_quantities_of_one_device_are_drawn_apart():
    fleet = draw_fleet(
        tiny("fleet.tx_power_w={uniform=[0,1]}", "fleet.capacitance={uniform=[1e-3,1]}"), 0
    )
    assert np.abs(fleet.tx_power_w - fleet.capacitance).min() > 1e-3


def test_the_three_forms_of_a_budget():
    # 4 global rounds x 2 edge rounds x 1 J = 8 J.
    assert_array_equal(draw_fleet(tiny(), 0).energy_budget_j, np.full(7, 8.0))
    total = tiny("fleet.energy_budget_j=5")
    assert_array_equal(draw_fleet(total, 0).energy_budget_j, np.full(7, 5.0))
    drawn = draw_fleet(tiny("fleet.energy_j_per_edge_round={uniform=[1,2]}"), 0).energy_budget_j
    assert drawn.min() >= 8
    assert drawn.max() < 16
    assert len(set(drawn)) == 7


def test_no_budget_is_no_limit(tmp_path):
    from fedrt.scenario import load_scenario, scenario_text

    text = scenario_text(tiny())
    path = tmp_path / "free.toml"
    path.write_text("\n".join(x for x in text.splitlines() if "energy_j_per" not in x))
    assert_array_equal(draw_fleet(load_scenario(path), 0).energy_budget_j, np.full(7, np.inf))


@pytest.mark.parametrize(("devices", "edges"), [(1, 1), (7, 7), (72, 8), (75, 8), (1003, 100)])
@pytest.mark.parametrize("kind", ["even", "uneven"])
def test_sizes_add_up_and_no_server_is_without_devices(devices, edges, kind):
    sizes = cluster_sizes(
        tiny(
            f"fleet.num_devices={devices}",
            f"fleet.num_edges={edges}",
            f"fleet.cluster_sizes={kind}",
        ).fleet
    )
    assert sizes.shape == (edges,)
    assert sizes.sum() == devices
    assert sizes.min() >= 1
    if kind == "even":
        assert sizes.max() - sizes.min() <= 1
    elif devices > 5 * edges:
        assert sizes.max() > 2 * sizes.min()
