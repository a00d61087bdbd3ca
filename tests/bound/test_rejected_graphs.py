"""Graphs that mix too slowly are rejected, and none is looked at twice."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from fedrt.bound import link_choices


def test_graphs_that_a_node_has_passed_with_are_not_tested_again(monkeypatch):
    """Links at low fail at once; then of the two others the second, as the first has passed.

    One step has to reach 0.5: a bound of 0.4 keeps a graph, one of 0.6 does not.
    """
    tested = []

    def contraction_bounds(graphs, targets):
        tested.append((graphs[:, 0, 0].tolist(), targets.tolist()))
        low = np.where(graphs[:, 0, 0] == 1, 0.4, 0.6)
        return low, low

    monkeypatch.setattr(link_choices, "contraction_bounds", contraction_bounds)
    links = SimpleNamespace(rho=0.25, zeta_limit=lambda psi: 0.25 ** (1 / psi))
    graphs = np.array([np.full((2, 2), number) for number in range(3)])
    work = [
        (0, links, SimpleNamespace(psi=2, passed=(True, False))),
        (1, links, SimpleNamespace(psi=2, passed=(False, True))),
    ]
    good = [np.ones(3, dtype=bool), np.ones(3, dtype=bool)]
    link_choices._test_contraction(work, [graphs, graphs], good)
    assert tested == [([0, 0], [0.5, 0.5]), ([2, 1], [0.5, 0.5])]
    assert [each.tolist() for each in good] == [[False, True, False], [False, True, True]]


def test_where_the_fewest_links_mix_fast_enough_nothing_else_is_tested(monkeypatch):
    tested = []

    def contraction_bounds(graphs, targets):
        tested.append(len(graphs))
        return np.full(len(graphs), 0.4), np.full(len(graphs), 0.4)

    monkeypatch.setattr(link_choices, "contraction_bounds", contraction_bounds)
    links = SimpleNamespace(rho=0.5, zeta_limit=lambda psi: 0.5)
    work = [(0, links, SimpleNamespace(psi=1, passed=(False, False)))]
    good = [np.ones(3, dtype=bool)]
    link_choices._test_contraction(work, [np.zeros((3, 2, 2))], good)
    assert tested == [1]
    assert good[0].all()
