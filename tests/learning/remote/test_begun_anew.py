"""A coded gossip with a server that has lost what its neighbours sent it: both begin anew."""

from __future__ import annotations

import numpy as np
import pytest
from support.parties import spread

from fedrt.learning.remote import EdgeModel, GossipOrder, ModelInputs

INPUTS = ModelInputs((1, 8, 8), 10, False)
NEAR = {0: (1, 2), 1: (0, 2), 2: (0, 1)}


def gossip(models, t, anew):
    """All servers gossip with their neighbours; `anew` has those that begin anew, by server."""
    third = (1 / 3,) * 2
    for c, model in models.items():
        model.begin(GossipOrder(t, 1 / 3, NEAR[c], third, 2, "int8", (), anew.get(c, ())))
    for step in range(2):
        sent = {(c, j): m.message_to(j, step) for c, m in models.items() for j in NEAR[c]}
        for c, model in models.items():
            model.receive(step, {j: sent[j, c] for j in NEAR[c]})
    for model in models.values():
        model.end()


def copies(model):
    """What a server takes the copies of each pair to be."""
    state = model.state()
    return dict(zip(map(tuple, state["pairs"].tolist()), state["copies"], strict=True))


def agree(models):
    """Whether both servers of every pair have the same copies."""
    held = {c: copies(model) for c, model in models.items()}
    pairs = [(c, j) for c in models for j in NEAR[c]]
    return all(
        np.array_equal(held[c][pair], held[j][pair]) for c, j in pairs for pair in ((c, j), (j, c))
    )


@pytest.mark.parametrize("told", [True, False])
def test_copies_agree_after_a_loss_only_if_both_sides_begin_anew(told):
    scenario = spread(3, 3, "learning.gossip=int8")
    models = {c: EdgeModel.open(scenario, 0, c, INPUTS) for c in range(3)}
    chance = np.random.default_rng(0)
    for model in models.values():
        state = model.state()
        noise = chance.normal(size=state["models"].shape).astype(state["models"].dtype)
        model.restore({**state, "models": state["models"] + noise})
    gossip(models, 0, {})
    assert agree(models)
    kept = copies(models[0])[0, 2]
    # Server 1 comes back with its model and nothing else.
    blank = EdgeModel.open(scenario, 0, 1, INPUTS)
    blank.restore({**blank.state(), "models": models[1].state()["models"]})
    models[1] = blank
    gossip(models, 1, {0: (1,), 2: (1,), 1: (0, 2)} if told else {})
    assert agree(models) is told
    assert not np.array_equal(copies(models[0])[0, 2], kept)  # of a pair that went on
    apart = [
        np.abs(models[c].state()["models"] - models[0].state()["models"]).max() for c in (1, 2)
    ]
    assert (max(apart) < 0.1) or not told
