"""First calls of compiled code, made for nothing: they leave nothing behind."""

from __future__ import annotations

import pytest

import fedrt
from fedrt.learning.remote import EdgeModel, LocalOrder, LocalTrainer
from fedrt.scenario import load_scenario

NORMALISE = "learning.normalise={mean=0.3, deviation=0.37}"


@pytest.mark.parametrize("codec", ["none", "int4", "top-k"])
def test_a_warm_device_trains_the_same(tmp_path, codec):
    scenario = load_scenario("quickstart", [NORMALISE, f"learning.upload={codec}"])
    fedrt.data_split(scenario, out=tmp_path / "data")
    cold, warm = (
        LocalTrainer.open(scenario, 0, 3, tmp_path / "data" / "device-3.npz") for _ in range(2)
    )
    warm.warm()
    assert warm.state() == {}
    model = cold.steps.parts.pack(cold.steps.parts.first_model)
    orders = [LocalOrder(0, r, 2) for r in range(2)]
    messages = []
    for trainer in (cold, warm):
        found = []
        for order in orders:
            found.append(trainer.train(order, model).message)
            trainer.settle()
        messages.append(found)
    assert messages[0] == messages[1]
    edge = EdgeModel.open(scenario, 0, 1, cold.inputs)
    before = edge.model()
    edge.warm()
    assert edge.model() == before
    assert (edge.parts.first_model == cold.steps.parts.first_model).all()
