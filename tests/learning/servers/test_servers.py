"""Server optimisers: by hand, alike in every engine, and what servers keep through gossip."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from support.learning_cases import small
from support.own_parts import trained
from support.watched import replay, run

from fedrt.errors import InputError
from fedrt.learning.servers import Servers, make_server_optimiser
from fedrt.learning.trainer import Trainer

pytestmark = pytest.mark.numerical

AVGM = 'learning.server_optimiser={kind="fedavgm",learning_rate=0.5,momentum=0.8}'
ADAM = 'learning.server_optimiser={kind="fedadam",learning_rate=0.1,beta1=0.5,beta2=0.75,tau=0.01}'
YOGI = ADAM.replace("fedadam", "fedyogi")
SHIPPED = [AVGM, ADAM, YOGI]
OWN = 'learning.server_optimiser={kind="support.own_training:Slow",rate=0.25}'
ROUNDS = "rounds={global_rounds=2,edge_rounds=2,local_steps=2,gossip_steps=1}"


def servers(given: str) -> Servers:
    """Two servers with one parameter and one buffer each."""
    optimiser = make_server_optimiser(small(given).learning)
    assert optimiser is not None
    return Servers(optimiser, torch.zeros(2, 2, dtype=torch.float64), 1)


def two_steps(given: str) -> list[float]:
    """The parameter of server 0 from 0, if the average is 1 above it, then 2 above."""
    held, found = servers(given), [0.0]
    for change in (1.0, 2.0):
        before = torch.tensor([[found[-1], 5.0], [9.0, 9.0]], dtype=torch.float64)
        averages = torch.tensor([[found[-1] + change, 6.0], [9.0, 9.0]], dtype=torch.float64)
        after = held.step(before, averages, np.array([0]))
        assert after[0, 1] == 6.0, "buffers are those of the average"
        assert after[1].tolist() == [9.0, 9.0], "a server without updates keeps its model"
        found.append(float(after[0, 0]))
    assert all(float(state[1, 0]) in (0.0, 0.01**2) for state in held.held), "and its state"
    return found[1:]


def test_momentum_by_hand():
    """v = 1, then 0.8 + 2 = 2.8; half of it each time."""
    np.testing.assert_allclose(two_steps(AVGM), [0.5, 0.5 + 1.4], rtol=1e-15)


def test_adam_by_hand():
    """m = 0.5, then 0.25 + 1 = 1.25; s = 0.75e-4 + 0.25, then 0.75 of that + 1."""
    s1 = 0.75e-4 + 0.25
    s2 = 0.75 * s1 + 1.0
    first = 0.1 * 0.5 / (s1**0.5 + 0.01)
    np.testing.assert_allclose(two_steps(ADAM), [first, first + 0.125 / (s2**0.5 + 0.01)])


def test_yogi_by_hand():
    """s = 1e-4 is below 1, so it grows by 0.25; then it is below 4 and grows by 1."""
    s1 = 1e-4 + 0.25
    first = 0.1 * 0.5 / (s1**0.5 + 0.01)
    second = first + 0.125 / ((s1 + 1.0) ** 0.5 + 0.01)
    np.testing.assert_allclose(two_steps(YOGI), [first, second])


def test_yogi_falls_by_a_small_change():
    """s = 1 above change^2 = 0.01 falls by 0.25 of that."""
    held = servers(YOGI)
    held.held[1][0] = 1.0
    zero = torch.zeros(2, 2, dtype=torch.float64)
    held.step(zero, zero + 0.1, np.array([0]))
    assert float(held.held[1][0]) == pytest.approx(1 - 0.25 * 0.01, rel=1e-15)


@pytest.mark.parametrize("given", [*SHIPPED, OWN])
def test_stacked_training_gives_the_same(given):
    wanted, found = trained("sequential", ROUNDS, given), trained("stacked", ROUNDS, given)
    assert float((found - wanted).norm() / wanted.norm()) <= 1e-12
    usual = trained("sequential", ROUNDS)
    assert float((usual - wanted).norm() / usual.norm()) > 0.01, "it changes nothing"


def test_a_step_of_1_without_momentum_is_averaging():
    given = 'learning.server_optimiser={kind="fedavgm",learning_rate=1.0,momentum=0.0}'
    wanted, found = trained("sequential", ROUNDS), trained("sequential", ROUNDS, given)
    assert float((found - wanted).norm() / wanted.norm()) <= 1e-12


def test_gossip_leaves_the_state_with_its_server():
    trainer, rounds = run(small(ROUNDS, ADAM))
    other = Trainer(trainer.setup)
    for turn in rounds[0].edge_rounds:
        other.train(turn.seen, turn.plan, turn.outcome)
    before = other.servers.state()
    models = other.models
    other.mix(0, rounds[0].last.gossip)
    assert not torch.equal(other.models, models)
    for name, held in other.servers.state().items():
        assert np.array_equal(held, before[name])
        assert not np.array_equal(held[0], held[1])


def test_a_saved_state_goes_on_as_if_nothing_had_happened():
    trainer, rounds = run(small(ROUNDS, YOGI))
    first, second = Trainer(trainer.setup), Trainer(trainer.setup)
    replay(first, rounds[:1])
    second.restore({name: array.copy() for name, array in first.state().items()})
    replay(second, rounds[1:])
    saved = second.state()
    assert set(saved) == {"models", "server_0", "server_1"}
    assert {k: v.tobytes() for k, v in saved.items()} == {
        k: v.tobytes() for k, v in trainer.state().items()
    }


WRONG = {
    "raises": "no update (own_training.py, line ",
    "shape": "update must return (models, state)",
    "type": "update must return (models, state)",
    "nan": "update must return finite numbers",
    "init": "init must return a list of tensors",
}


@pytest.mark.parametrize("how", WRONG)
def test_one_that_fails_ends_in_one_line(how):
    given = f'learning.server_optimiser={{kind="support.own_training:Slow",how="{how}"}}'
    line = f"^scenario.learning.server_optimiser = [^\n]*{re.escape(WRONG[how])}[^\n]*$"
    with pytest.raises(InputError, match=line):
        two_steps(given)


def test_a_scenario_knows_the_names_of_all():
    with pytest.raises(InputError, match="one of fedavgm, fedadam, fedyogi, or an import path"):
        small('learning.server_optimiser="sgd"')
