"""The step size of coded gossip: by hand, against following the losses, and where it is one."""

from __future__ import annotations

import numpy as np
import pytest

from fedrt.control.mixing.damping import MOST, damped, loss_gain
from fedrt.control.mixing.fastest import fastest_weights
from fedrt.control.mixing.weights import metropolis_weights
from fedrt.messages import distortion

pytestmark = pytest.mark.numerical


def full(size):
    return ~np.eye(size, dtype=bool)


def path(size):
    return np.eye(size, k=1, dtype=bool) | np.eye(size, k=-1, dtype=bool)


def star(size):
    links = np.zeros((size, size), dtype=bool)
    links[0, 1:] = links[1:, 0] = True
    return links


GRAPHS = {"full": full(6), "path": path(6), "star": star(6), "two": path(2)}


def test_two_servers_by_hand():
    # W = 1/2 everywhere: 2 I - W has 3/2 and -1/2, squares 9/4 and 1/4; (I - W)^2 = I - W has 1/2
    # and -1/2, squares 1/4; W (I - W)^2 = 0. M = [[5/2, 1/2], [1/2, 5/2]] has eigenvalues 3 and 2.
    assert loss_gain(np.full((2, 2), 0.5)) == pytest.approx(3.0, rel=1e-12)
    # Servers without links code their own losses again, 1 of them, for ever.
    assert loss_gain(np.eye(3)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_losses_grow_as_the_gain_says(name):
    """Second moments of losses and models followed step by step, at the border of stability."""
    weights = fastest_weights(GRAPHS[name]).mixing
    one, gain = np.eye(len(weights)), loss_gain(weights)
    for delta, grows in ((0.98 / gain, False), (1.02 / gain, True)):
        models, losses = np.zeros(weights.shape), np.ones(len(weights))
        totals = []
        for _ in range(4000):
            spread = np.diag(losses)
            coded = (2 * one - weights) @ spread @ (2 * one - weights)
            coded += (one - weights) @ models @ (one - weights)
            models = weights @ models @ weights + (one - weights) @ spread @ (one - weights)
            losses = delta * np.diag(coded)
            totals.append(losses.sum())
        assert (totals[-1] > totals[-1000]) == grows


def test_the_step_size_is_one_where_little_is_lost():
    for links in GRAPHS.values():
        for weights in (metropolis_weights(links), fastest_weights(links).mixing):
            for codec in ("float32", "float16", "int8", "int6", "int5"):
                assert damped(weights, distortion(codec)) is weights
    for links in (full(8), full(16), path(8), star(8)):
        weights = metropolis_weights(links)
        assert damped(weights, distortion("int4")) is weights


@pytest.mark.parametrize("name", GRAPHS)
def test_damped_weights_are_the_greatest_that_lose_little_enough(name):
    weights, delta = fastest_weights(GRAPHS[name]).mixing, distortion("int3")
    found, one = damped(weights, delta), np.eye(len(weights))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    size = (found - one)[0, 1] / (weights - one)[0, 1]
    assert size * 8 == pytest.approx(round(size * 8), abs=1e-9)
    assert delta * loss_gain(found) <= MOST
    if size < 1:
        assert delta * loss_gain(one + (size + 1 / 8) * (weights - one)) > MOST


def test_a_codec_that_loses_nearly_all_still_moves():
    weights = fastest_weights(path(6)).mixing
    np.testing.assert_allclose(damped(weights, 0.9) - np.eye(6), (weights - np.eye(6)) / 8)
