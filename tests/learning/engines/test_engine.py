"""Engines against a plain loop written here, and what must not change their result.

One test body for all engines. The differences that were measured are in the summary of a test run,
under "oracles".
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from support.learning_cases import SAME_EVERYWHERE, SHAPES, SMOOTH, Case, engine_case, noise
from torch.nn import functional as fn

from fedrt.data.catalogue import Dataset
from fedrt.learning.engines.engine import DivergedError
from fedrt.learning.setup import ENGINES

ENGINE_NAMES = list(ENGINES)
SAME = 1e-5
"""What order and threads may change, relative to the update's norm per edge round."""

pytestmark = [pytest.mark.numerical, pytest.mark.parametrize("engine", ENGINE_NAMES)]


def plain_loop(case: Case, *, augment: bool = False) -> list[dict[str, torch.Tensor]]:
    """The order carried out with torch's own optimiser, module by module: a state per edge."""
    order, states = case.order, []
    for edge, module in enumerate(case.modules):
        sums = {name: torch.zeros_like(part).double() for name, part in module.state_dict().items()}
        mine = np.flatnonzero(order.edge_of_device == edge)
        for n in mine:
            local, device = copy.deepcopy(module).train(), order.devices[n : n + 1]
            optimiser = torch.optim.SGD(local.parameters(), lr=case.learning_rate, momentum=0.9)
            for step in range(order.local_steps[n]):
                draw = (order.t, order.r, step + 1, device)
                chosen = torch.as_tensor(case.batches.draw(*draw)[step, 0])
                shifts = None
                if augment:
                    shifts = torch.as_tensor(case.batches.draw_augmentation(*draw)[step, 0])
                inputs, labels = case.samples.batch(chosen, shifts)
                optimiser.zero_grad()
                fn.cross_entropy(local(inputs), labels).backward()
                optimiser.step()
            for name, part in local.state_dict().items():
                sums[name] += order.weight[n] * part.double()
        states.append(sums if len(mine) else module.state_dict())
    return states


def worst_difference(case: Case, after: torch.Tensor, states, record_property, label) -> float:
    """The worst parameter or buffer difference, relative to the norm of its edge's update."""
    worst = 0.0
    for edge in np.unique(case.order.edge_of_device).tolist():
        got, before = case.named(after[edge]), case.modules[edge].state_dict()
        kinds: dict[bool, list[str]] = {}
        parameters = {name for name, _ in case.modules[edge].named_parameters()}
        for name in got:
            if got[name].is_floating_point():
                kinds.setdefault(name in parameters, []).append(name)
        for names in kinds.values():
            moved = sum(float((states[edge][k] - before[k]).square().sum()) for k in names) ** 0.5
            gap = max(float((got[k].double() - states[edge][k]).abs().max()) for k in names)
            assert moved > 0
            worst = max(worst, gap / moved)
    record_property("oracle", {f"worst {label}": worst})
    return worst


def relative_gap(case: Case, one: torch.Tensor, two: torch.Tensor) -> float:
    """The norm of the difference over that of the update, the worst edge."""
    moved = (one - case.models).double().norm(dim=1)
    gap = (one - two).double().norm(dim=1)
    return float((gap[moved > 0] / moved[moved > 0]).max())


LIMITS = {"float32": 1e-6, "float64": 1e-12}
"""Seen in all variants: 1.2e-7 and 2e-15."""
MAGNIFIED = 1e-5
"""In float32 batch norm over four small images magnifies rounding: 1.1e-6 seen of ResNet-20."""
LARGE_STEPS = 0.5
"""A learning rate for float32: beside small updates the rounding of stored parameters is large."""
# Shifted images have blank borders, and those ties: augmented ones train the smooth model.
AUGMENTED = [("float32", "smooth-cnn", True), ("float64", "smooth-cnn", True)]


@pytest.mark.parametrize(
    ("dtype", "model", "augment"), [*((*each, False) for each in SAME_EVERYWHERE), *AUGMENTED]
)
def test_an_engine_is_the_plain_loop(engine, model, dtype, augment, record_property):
    """Uneven local steps, given weights, fresh momentum, and all the model's buffers."""
    limit, rate = LIMITS[dtype], 0.05
    if dtype == "float32":
        limit, rate = (MAGNIFIED, 0.05) if "resnet20" in model else (limit, LARGE_STEPS)
    case = engine_case(engine, model, dtype, augment=augment, learning_rate=rate)
    after = case.engine.train(case.models, case.order).models
    label = f"engine {engine} against the plain loop, {dtype}, {model}"
    wanted = plain_loop(case, augment=augment)
    assert worst_difference(case, after, wanted, record_property, label) <= limit
    assert after.dtype == case.models.dtype


def test_losses_are_summed_per_device(engine):
    case = engine_case(engine, dtype="float64")
    loss_sum = case.engine.train(case.models, case.order).loss_sum
    assert loss_sum.shape == (7,)
    # Device 1 of the fleet takes one step from its edge's model: the loss of that.
    chosen = case.batches.draw(3, 1, 1, np.array([1]))[0, 0]
    inputs, labels = case.samples.batch(torch.as_tensor(chosen))
    by_hand = fn.cross_entropy(case.modules[0](inputs), labels).item()
    assert loss_sum[1] == pytest.approx(by_hand, rel=1e-12)
    # The first of the steps is the same however many follow; each adds its loss.
    sums = []
    for steps in (1, 2, 3):
        order = replace(case.order, local_steps=np.full(7, steps))
        sums.append(case.engine.train(case.models, order).loss_sum)
    several = case.order.local_steps[:, None] == [1, 2, 3]
    assert_allclose(loss_sum, np.stack(sums, axis=1)[several], rtol=1e-12)
    assert (np.diff(sums, axis=0) > 0).all()


def test_an_edge_that_nobody_trains_for_keeps_its_model(engine):
    case = engine_case(engine, "resnet20")
    kept = case.models.clone()
    after = case.train()
    assert torch.equal(after[2], kept[2])
    assert all(not torch.equal(after[c], kept[c]) for c in (0, 1, 3))
    assert torch.equal(case.models, kept), "the engine changed what it was given"
    nobody = np.array([], dtype=np.int64)
    weight = np.array([])
    alone = case.train(devices=nobody, edge_of_device=nobody, local_steps=nobody, weight=weight)
    assert torch.equal(alone, kept)
    # A single device: its edge moves, all others stay.
    one = np.array([3])
    alone = case.train(devices=one, edge_of_device=one, local_steps=one, weight=np.ones(1))
    assert torch.equal(alone[:3], kept[:3])
    assert not torch.equal(alone[3], kept[3])


def test_absent_devices_do_not_matter(engine):
    """Without device 8, edge 3 has what device 7 alone gives; the others as before."""
    case = engine_case(engine, dtype="float64")
    order = case.order
    short = {
        "devices": order.devices[:6],
        "edge_of_device": order.edge_of_device[:6],
        "local_steps": order.local_steps[:6],
        "weight": np.array([*order.weight[:5], 1.0]),
    }
    both, one = case.train(), case.train(**short)
    lone = case.train(**{key: value[5:] for key, value in short.items()})
    moved = (one - case.models).norm(dim=1)
    # Who shares a chunk may change how sums are rounded; one after the other nothing does.
    limit = 0.0 if engine == "sequential" else 1e-12
    assert ((both - one).norm(dim=1)[:3] <= limit * moved[:3]).all()
    assert (lone - one)[3].norm() <= limit * moved[3]


def test_weights_decide_what_a_device_counts(engine):
    """The edge model is the weighted mean of what its devices give alone."""
    case = engine_case(engine, "resnet20", "float64")
    alone = []
    for n in (5, 6):
        part = slice(n, n + 1)
        order = case.order
        only = {
            "devices": order.devices[part],
            "edge_of_device": order.edge_of_device[part],
            "local_steps": order.local_steps[part],
            "weight": np.ones(1),
        }
        alone.append(case.train(**only)[3])
    for share in (0.75, 0.5, 0.1):
        weight = np.array([*case.order.weight[:5], share, 1 - share])
        after = case.train(weight=weight)[3]
        torch.testing.assert_close(
            after, share * alone[0] + (1 - share) * alone[1], rtol=0, atol=1e-14
        )


def test_buffers_are_averaged_like_parameters(engine):
    """Batch-norm statistics by hand after one step, and the mean count of batches."""
    case = engine_case(engine, "resnet20", "float64")
    steps = np.ones(7, dtype=np.int64)
    after = case.train(local_steps=steps)
    got, running = case.named(after[3]), torch.zeros(16, dtype=torch.float64)
    for n, share in ((7, 0.75), (8, 0.25)):
        chosen = torch.as_tensor(case.batches.draw(3, 1, 1, np.array([n]))[0, 0])
        first = case.modules[3].stem(case.samples.batch(chosen)[0])
        # A new statistic counts 0.1; the first mean is 0.
        running += share * 0.1 * first.detach().mean((0, 2, 3))
    torch.testing.assert_close(got["norm.running_mean"], running, rtol=1e-12, atol=1e-14)
    assert int(got["norm.num_batches_tracked"]) == 1
    # 2 and 1 steps at weights 0.75 and 0.25: the state keeps the mean, 1.75, as it is.
    assert float(case.train()[3, -1]) == pytest.approx(1.75)


@pytest.mark.parametrize("model", SMOOTH)
def test_the_order_of_devices_does_not_matter(engine, model, record_property):
    case = engine_case(engine, model)
    start = case.train()
    for seed in range(2):
        mixed = np.random.default_rng(seed).permutation(7)
        fields = ("devices", "edge_of_device", "local_steps", "weight")
        other = case.train(**{name: getattr(case.order, name)[mixed] for name in fields})
        gap = relative_gap(case, start, other)
        record_property("oracle", {f"worst engine {engine}, order of devices": gap})
        assert gap <= SAME


@pytest.mark.parametrize("model", SMOOTH)
def test_the_number_of_threads_does_not_matter(engine, model, record_property):
    """Two devices on an edge, a step each: threads that share their cores are slow."""
    case, before, results = engine_case(engine, model), torch.get_num_threads(), []
    steps = np.array([1, 1])
    two = {"devices": np.array([1, 3]), "edge_of_device": np.array([0, 0]), "local_steps": steps}
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(case.train(**two, weight=np.array([0.5, 0.5])))
    finally:
        torch.set_num_threads(before)
    gap = relative_gap(case, *results)
    record_property("oracle", {f"worst engine {engine}, threads": gap})
    assert gap <= SAME


def test_the_same_order_gives_the_same_bits(engine):
    for model in ("resnet20", "support.learning_cases:WithDropout"):
        assert torch.equal(engine_case(engine, model).train(), engine_case(engine, model).train())


def test_what_a_module_draws_by_itself_is_keyed(engine, monkeypatch):
    """Dropout follows (seed, t, r, device), not torch's own generator, and leaves that alone."""
    case = engine_case(engine, "support.learning_cases:WithDropout")
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    start = case.train()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(case.train(), start)
    if engine == "sequential":
        # Others draw for a whole chunk, keyed by its first device: who shares it matters there.
        part = slice(5, 7)
        fields = ("devices", "edge_of_device", "local_steps", "weight")
        fewer = case.train(**{name: getattr(case.order, name)[part] for name in fields})
        assert torch.equal(fewer[3], start[3])
    # It does draw: without it the module is linear and the result another.
    monkeypatch.setitem(
        SHAPES, "support.learning_cases:Linear", SHAPES["support.learning_cases:WithDropout"]
    )
    without = engine_case(engine, "support.learning_cases:Linear")
    assert torch.equal(without.models, case.models)
    assert not torch.equal(without.train()[3], start[3])


def test_an_absurd_learning_rate_stops_with_round_edge_and_device(engine):
    case = engine_case(engine, learning_rate=1e30)
    with pytest.raises(DivergedError) as caught:
        case.train()
    (line,) = caught.value.lines
    assert caught.value.exit_code == 4
    assert line.startswith("global round 3, edge round 1: the loss of device ")
    assert re.search(r"device \d+ on edge \d( and \d+ more)? is (nan|inf); try a lower", line)
    assert "learning.learning_rate" in line


def test_a_step_that_leaves_the_finite_numbers_after_the_last_loss(engine):
    """One step of one device: its loss was fine, its model is not."""
    case = engine_case(engine, learning_rate=3e38)
    case.models *= 10
    one = np.array([1])
    with pytest.raises(DivergedError) as caught:
        case.train(devices=one, edge_of_device=one, local_steps=one, weight=np.ones(1))
    (line,) = caught.value.lines
    assert line.startswith("global round 3, edge round 1: the model of device 1 on edge 1 is ")


def test_bad_data_names_the_device_that_holds_it(engine):
    """Device 3 of the fleet, on edge 1, holds a single sample that is no number."""
    clean = noise(SHAPES["small-cnn"])
    images = clean.train_images.astype(np.float32)
    data = Dataset("bad", images, clean.train_labels, images[:9], clean.train_labels[:9], 5)
    case = engine_case(engine, data=data)
    first = case.batches.first[3]
    held = case.batches.samples[first : first + case.batches.sizes[3]]
    case.samples.train[torch.as_tensor(held)] = torch.nan
    with pytest.raises(DivergedError) as caught:
        case.train()
    assert "the loss of device 3 on edge 1 is nan" in str(caught.value)
    assert "look at that device's data" in str(caught.value)
