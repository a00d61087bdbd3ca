"""The convergence bound: each term on numbers worked by hand."""

from __future__ import annotations

from math import inf, sqrt

import pytest

from fedrt.control.mixing.convergence import convergence_bound, omega_1, omega_2

pytestmark = pytest.mark.numerical

CASE = {
    "learning_rate": 0.01,
    "smoothness": 2.0,
    "gradient_noise": 3.0,
    "initial_gap": 5.0,
    "inter_cluster_divergence": 0.5,
    "intra_cluster_divergence": [1.0, 2.0],
    "cluster_sizes": [2, 6],
    "global_rounds": 10,
    "edge_rounds": 2,
    "local_steps": 5,
    "gossip_steps": 1,
    "zeta": 0.0,
}


def test_omegas_on_the_complete_graph():
    assert omega_1(0.0, 1) == 0
    assert omega_2(0.0, 1) == 3
    assert omega_1(0.0, 10) == 0
    assert omega_2(0.0, 10) == 3


def test_omegas_by_hand():
    # zeta^psi = 1/4. Omega_1 = (1/16) / (15/16) = 1/15.
    assert omega_1(0.5, 2) == pytest.approx(1 / 15, rel=1e-15)
    # Omega_2 = 16/15 + 2 * 4/3 + (1/4) (16/9) = 16/15 + 8/3 + 4/9 = (48 + 120 + 20) / 45
    assert omega_2(0.5, 2) == pytest.approx(188 / 45, rel=1e-15)


def test_servers_that_do_not_mix_have_no_bound():
    assert omega_1(1.0, 10) == inf
    assert omega_2(1.0, 10) == inf
    bound = convergence_bound(**(CASE | {"zeta": 1.0}))
    assert bound.total == inf
    assert bound.greatest_learning_rate == 0
    assert not bound.holds


def test_the_six_terms_by_hand():
    bound = convergence_bound(**CASE)
    # Phi = 10 * 2 * 5 = 100: 2 * 5 / (0.01 * 100) = 10
    assert bound.initial == pytest.approx(10.0, rel=1e-14)
    # 0.01 * 2 * 9 / 8 = 0.0225
    assert bound.variance == pytest.approx(0.0225, rel=1e-14)
    # (eta L)^2 = 4e-4; 8 * 4e-4 * (0 + 1/8) * 2 * 5 * 9 = 0.036
    assert bound.mixing == pytest.approx(0.036, rel=1e-14)
    # 16 * 4e-4 * (10)^2 * 3 * 0.25 = 0.48
    assert bound.inter_cluster == pytest.approx(0.48, rel=1e-14)
    # 8 * 6/8 * 4e-4 * 5 * 9 = 0.108
    assert bound.local == pytest.approx(0.108, rel=1e-14)
    # sum = 2/8 * 1 + 6/8 * 4 = 3.25; 16 * 4e-4 * 25 * 3.25 = 0.52
    assert bound.intra_cluster == pytest.approx(0.52, rel=1e-14)
    # 10 + 0.0225 + 0.036 + 0.48 + 0.108 + 0.52 = 11.1665
    assert bound.total == pytest.approx(11.1665, rel=1e-14)


def test_the_mixing_term_grows_with_omega_1():
    # zeta = 1/2, psi = 2: 8 * 4e-4 * (1/15 + 1/8) * 90 = 0.288 * 23/120 = 0.0552
    bound = convergence_bound(**(CASE | {"zeta": 0.5, "gossip_steps": 2}))
    assert bound.mixing == pytest.approx(0.0552, rel=1e-14)
    # 16 * 4e-4 * 100 * 188/45 * 0.25 = 0.16 * 188/45
    assert bound.inter_cluster == pytest.approx(0.16 * 188 / 45, rel=1e-14)


def test_the_condition_on_the_learning_rate():
    # min(1 / (2 * 2 * 5), 1 / (2 sqrt(6) * 2 * 2 * 5)) = min(0.05, 0.0102...) = 1 / (40 sqrt(6))
    bound = convergence_bound(**CASE)
    assert bound.greatest_learning_rate == pytest.approx(1 / (40 * sqrt(6)), rel=1e-15)
    assert bound.holds
    assert not convergence_bound(**(CASE | {"learning_rate": 0.011})).holds
