"""What an agent of the environment is paid for, and what its actions stand for."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from fedrt.environment import HFELEnv
from fedrt.environment.actions import shared_hz
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation

ALONE = (
    "fleet.num_edges=3",
    "fleet.num_devices=3",
    "fleet.cluster_sizes=[1,1,1]",
    "fleet.cpu_min_hz=1e9",
    "fleet.cpu_max_hz=4e9",
    "fleet.cycles_per_sample=1e8",
    "rounds={global_rounds=2,edge_rounds=2,local_steps=10,gossip_steps=2}",
    "learning.batch_size=4",
    'channel={kind="uniform",low_db=10,high_db=10}',
    'bandwidth={kind="constant",hz=1e6}',
)
"""A device on each of three servers: it has all the bandwidth, whatever the action."""


@pytest.mark.parametrize("actions", ["full", "small"])
@pytest.mark.parametrize("price", [0.0, 2.5])
def test_a_step_is_paid_for_its_seconds_and_for_what_it_overspends(actions, price):
    """At the highest frequencies 0.05 J are soon spent: every step has a part of its own."""
    settings = (*ALONE, "fleet.energy_j_per_edge_round=0.05", "fleet.capacitance=1e-28")
    env = HFELEnv("quickstart", settings, actions, overspend_price=price)
    _, before = env.reset(seed=2)
    assert (before["time_s"], before["energy_j"], before["overspent_j"]) == (0, 0, 0)
    action, ended, steps, over_j = np.ones(env.action_space.shape), False, 0, []
    while not ended:
        _, reward, ended, _, after = env.step(action)
        took_s = after["time_s"] - before["time_s"]
        over_j.append(after["overspent_j"] - before["overspent_j"])
        assert took_s > 0
        assert reward == pytest.approx(-took_s - price * over_j[-1], rel=1e-9)
        before, steps = after, steps + 1
    assert steps == 4
    assert sum(value > 0.1 for value in over_j) >= 2


def test_frequencies_lie_on_a_logarithmic_scale():
    """10 steps of 4 samples with 1e8 cycles are 4e9 cycles: at 1, 2 and 4 GHz 4, 2 and 1 s.

    At -0.5 it is 1 GHz times 4^(1/4), the root of 2: 2.828 s. The upload takes as long as ever.
    """
    seconds = {}
    for level in (-1.0, -0.5, 0.0, 1.0):
        env = HFELEnv("quickstart", ALONE)
        env.reset(seed=0)
        action = np.zeros(env.action_space.shape)
        action[3:6] = level
        seconds[level] = env.step(action)[4]["edge_time_s"]
    upload_s = seconds[1.0] - 1.0
    assert (upload_s > 0).all()
    for level, compute_s in ((-1.0, 4.0), (-0.5, 2 * np.sqrt(2)), (0.0, 2.0)):
        np.testing.assert_allclose(seconds[level] - upload_s, compute_s, rtol=1e-9)


def test_each_device_has_the_frequency_of_its_own_number():
    env = HFELEnv("quickstart", ALONE)
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape)
    action[3:6] = (-1.0, 0.0, 1.0)
    edge_time_s = env.step(action)[4]["edge_time_s"]
    np.testing.assert_allclose(edge_time_s - edge_time_s[2], [3.0, 1.0, 0.0], atol=1e-9)


def test_shares_of_bandwidth_are_exponentials_of_the_action():
    """Two devices a cluster, actions 0 and ln(3) / 3: shares of 1/4 and 3/4, so a third the time.

    All compute alike at the highest frequency: what differs is the upload of the slower one.
    """
    pair = [text for text in ALONE if "cluster_sizes" not in text and "num_devices" not in text]
    settings = (*pair, "fleet.num_devices=6", "fleet.cluster_sizes=[2,2,2]")

    def uploads_s(first: float, second: float) -> np.ndarray:
        env = HFELEnv("quickstart", settings)
        env.reset(seed=0)
        action = np.ones(env.action_space.shape)
        action[:6] = [first, second] * 3
        return env.step(action)[4]["edge_time_s"] - 1.0

    even_s = uploads_s(0.5, 0.5)
    # The device with a quarter of the bandwidth takes twice as long as with half of it.
    np.testing.assert_allclose(uploads_s(0.0, np.log(3) / 3), 2 * even_s, rtol=1e-9)


def blocks(weight: list[float], edge_of_device: list[int], hz: list[float]) -> list[float]:
    count = len(weight)
    seen = Observation(
        model_bits=1e6,
        local_steps=1,
        gossip_steps=1,
        edge_of_device=np.array(edge_of_device),
        cycles=np.ones(count),
        snr=np.ones(count),
        tx_power_w=np.ones(count),
        capacitance=np.ones(count),
        cpu_min_hz=np.ones(count),
        cpu_max_hz=np.ones(count),
        edge_bandwidth_hz=np.array(hz),
        laws=Laws(block_hz=100.0),
    )
    return (shared_hz(seen, np.array(weight)) / 100.0).tolist()


def test_blocks_go_by_the_greatest_remainders_after_one_for_each():
    """Ten blocks, weights 1, 1 and 2: one each, then 1.75, 1.75 and 3.5 of the other seven.

    1, 1 and 3 of them are whole; the two left go to the remainders of 0.75. Beside it, with weights
    1 and 4, 4.5 blocks are 4: one each, then 0.4 and 1.6 of two; the one left goes to 0.6.
    """
    assert blocks([1.0, 1.0, 2.0], [0, 0, 0], [1000.0]) == [3, 3, 4]
    assert blocks([1.0, 1.0, 2.0, 1.0, 4.0], [0, 0, 0, 1, 1], [1000.0, 450.0]) == [3, 3, 4, 1, 3]


def test_the_lightest_device_has_a_block_too():
    assert blocks([1e-9, 1.0], [0, 0], [500.0]) == [1, 4]
