"""What an agent of the environment sees, and its three small actions, worked out from its steps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from fedrt.environment import HFELEnv
from fedrt.environment.actions import shared_hz
from fedrt.errors import InputError
from fedrt.policies import make_policy
from fedrt.world.laws import Laws
from fedrt.world.observation import Observation

FLEET = (
    "fleet.num_edges=3",
    "fleet.num_devices=6",
    "fleet.cluster_sizes=[2,2,2]",
    "fleet.cpu_min_hz=1e9",
    "fleet.cpu_max_hz=4e9",
    "fleet.cycles_per_sample=1e8",
    "fleet.capacitance=1e-28",
    "rounds={global_rounds=4,edge_rounds=2,local_steps=10,gossip_steps=3}",
    "learning.batch_size=4",
    "learning.model_bits=8e6",
    'channel={kind="uniform",low_db=0,high_db=15}',
    'bandwidth={kind="constant",hz=2e6}',
    'backhaul={kind="uniform",low_bps=1e6,high_bps=8e6}',
    'base_graph={kind="complete"}',
)
"""Two devices on each of three servers; 4e9 cycles, so 1 s at 4 GHz and 4 s at 1 GHz."""
DEVICES, EDGES, LINKS, RUN = slice(0, 36), slice(36, 42), slice(42, 45), slice(45, 48)


def parts(view) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The full view: six numbers of each device, two of each server, one of each link, three."""
    assert view.shape == (48,)
    return view[DEVICES].reshape(6, 6), view[EDGES].reshape(3, 2), view[LINKS], view[RUN]


def flat_out(env) -> np.ndarray:
    """Even shares, highest frequencies and all links."""
    action = np.zeros(env.action_space.shape)
    action[6:] = 1.0
    return action


def test_a_view_worked_out_from_the_steps_of_a_run():
    env = HFELEnv("quickstart", (*FLEET, "fleet.energy_j_per_edge_round=8"))
    view, info = env.reset(seed=3)
    devices, edges, links, run = parts(view)
    np.testing.assert_array_equal(devices[:, 0], 1.0)
    np.testing.assert_allclose(devices[:, 2], 0.0, atol=1e-6)  # 1 s at the highest frequency
    np.testing.assert_allclose(devices[:, 3], np.log10(4.0), rtol=1e-6)
    np.testing.assert_array_equal(devices[:, 4], 1.0)
    np.testing.assert_allclose(edges, [[np.log10(2.0), 0.0]] * 3, rtol=1e-6)
    np.testing.assert_array_equal(links, 0.0)
    np.testing.assert_array_equal(run, 0.0)
    # The slower of two devices ends its cluster's edge round.
    view, _, _, _, info = env.step(flat_out(env))
    slowest_s = (10 ** devices[:, 1]).reshape(3, 2).max(axis=1)
    np.testing.assert_allclose(info["edge_time_s"], 1.0 + slowest_s, rtol=1e-5)
    # Allowances of 8 J over what was then spent, of budgets of 8 times 8 J.
    spent_j = 8.0 / 10 ** devices[:, 5]
    assert spent_j.sum() == pytest.approx(info["energy_j"], rel=1e-5)
    after, edges, links, run = parts(view)
    np.testing.assert_allclose(after[:, 4], 1 - spent_j / 64, rtol=1e-5)
    elapsed_s = info["edge_time_s"]
    np.testing.assert_allclose(edges[:, 1], elapsed_s / elapsed_s.mean(), rtol=1e-5)
    # Messages of 8e6 bits at 1e6 to 8e6 bit/s take from 1 to 8 s; now links are chosen.
    assert ((links >= 0) & (links <= np.log10(8.0) + 1e-6)).all()
    np.testing.assert_allclose(run, [0.0, 0.5, 1.0])
    # All links, three gossip steps: each server waits for the slower of its two.
    view, _, _, _, info = env.step(flat_out(env))
    step_s = 10**links
    slower_s = np.array([max(step_s[[0, 1]]), max(step_s[[0, 2]]), max(step_s[[1, 2]])])
    ends_s = elapsed_s + info["edge_time_s"] + 3 * slower_s
    assert info["time_s"] == pytest.approx(ends_s.max(), rel=1e-5)
    _, edges, _, run = parts(view)
    np.testing.assert_array_equal(edges[:, 1], 0.0)
    np.testing.assert_allclose(run, [0.25, 0.0, 0.0])


def test_who_has_nothing_left_is_seen_at_the_least():
    env = HFELEnv("quickstart", (*FLEET, "fleet.energy_j_per_edge_round=0.01"))
    env.reset(seed=3)
    view, _, _, _, info = env.step(flat_out(env))
    devices = parts(view)[0]
    assert info["overspent_j"] > 0
    np.testing.assert_array_equal(devices[:, 5], -10.0)
    assert (devices[:, 4] < 0).all()


def test_the_small_view_sums_up_the_full_one():
    settings = (*FLEET, "fleet.energy_j_per_edge_round=[8,7,6,5,4,3]")
    views = []
    for kind in ("full", "small"):
        env = HFELEnv("quickstart", settings, kind)
        env.reset(seed=5)
        views.append(env.carry_out(env.plan_of(make_policy("ce-fedavg")))[0])
    devices = parts(views[0])[0]
    # Energies differ, and so do the shares that are left.
    assert np.ptp(devices[:, 4]) > 0.001
    by_hand = [
        *views[0][RUN],
        devices[:, 1].mean(),
        devices[:, 1].std(),
        devices[:, 2].mean(),
        devices[:, 4].min(),
        devices[:, 5].mean(),
    ]
    np.testing.assert_allclose(views[1], by_hand, rtol=1e-5, atol=1e-6)


def alone(*settings: str) -> tuple[HFELEnv, np.ndarray]:
    """Small actions and no limits of energy, and the uploads' seconds over even shares."""
    every = (*FLEET, "fleet.energy_j_per_edge_round=1e6", *settings)
    view, _ = HFELEnv("quickstart", every).reset(seed=4)
    env = HFELEnv("quickstart", every, "small")
    env.reset(seed=4)
    return env, 10 ** view[DEVICES].reshape(6, 6)[:, 1].astype(float)


@pytest.mark.parametrize(("power", "compute_s"), [(-1.0, 2.0), (-0.5, 2**0.5), (0.0, 1), (1.0, 1)])
def test_the_second_small_action_is_a_power_of_two_of_the_frequency(power, compute_s):
    """An even split without limits computes at the highest, and none goes beyond it."""
    env, upload_s = alone()
    edge_time_s = env.step(np.array([-1.0, power, 0.0]))[4]["edge_time_s"]
    np.testing.assert_allclose(edge_time_s, compute_s + upload_s.reshape(3, 2).max(axis=1), 1e-5)


@pytest.mark.parametrize(("tilt", "power"), [(-1.0, 0.0), (0.0, 1.0), (1.0, 2.0)])
def test_the_first_small_action_gives_bandwidth_to_the_slow(tilt, power):
    """Shares go as a power of the time that a device takes with half of the bandwidth."""
    env, upload_s = alone()
    weight = (1.0 + upload_s.reshape(3, 2)) ** power
    share = weight / weight.sum(axis=1, keepdims=True)
    by_hand = (1.0 + upload_s.reshape(3, 2) * 0.5 / share).max(axis=1)
    np.testing.assert_allclose(
        env.step(np.array([tilt, 0.0, 0.0]))[4]["edge_time_s"], by_hand, 1e-5
    )


@pytest.mark.parametrize(("share", "links"), [(-1.0, 2), (1.0, 3)])
def test_the_third_small_action_uses_the_fastest_links_first(share, links):
    """Two links connect three servers; one edge round a global round, so that it ends with them."""
    loop = "rounds={global_rounds=2,edge_rounds=1,local_steps=10,gossip_steps=3}"
    loose = "control={kappa=0.99,mixing='metropolis',budgets='best-effort',energy_horizon='policy'}"
    env, _ = alone(loop, loose)
    every = (*FLEET, "fleet.energy_j_per_edge_round=1e6", loop, loose)
    step_s = 10 ** HFELEnv("quickstart", every).reset(seed=4)[0][LINKS].astype(float)
    info = env.step(np.array([-1.0, 0.0, share]))[4]
    chosen = np.argsort(step_s)[:links]
    waits_s = [max((step_s[i] for i in chosen if c in PAIRS[i]), default=0.0) for c in range(3)]
    ends_s = info["edge_time_s"] + 3 * np.array(waits_s)
    assert info["time_s"] == pytest.approx(ends_s.max(), rel=1e-5)


PAIRS = ((0, 1), (0, 2), (1, 2))


def test_the_seconds_of_a_step_are_those_that_came_to_pass():
    """With stragglers edge rounds take longer than planned; the clock goes by what they took."""
    slow = ("faults.straggler={kind='random',probability=0.5}", "faults.straggler_speed=0.25")
    env = HFELEnv("quickstart", (*FLEET, "fleet.energy_j_per_edge_round=1e6", *slow))
    _, upload_s = alone()
    _, before = env.reset(seed=4)
    info = env.step(flat_out(env))[4]
    took_s = info["time_s"] - before["time_s"]
    assert took_s == pytest.approx(info["edge_time_s"].max(), rel=1e-9)
    planned_s = 1.0 + upload_s.reshape(3, 2).max(axis=1)
    assert (info["edge_time_s"] >= planned_s * (1 - 1e-5)).all()
    assert (info["edge_time_s"] > planned_s + 1.0).any()


def test_a_server_with_fewer_blocks_than_devices_is_named():
    """Two blocks for three devices, beside a server with more than enough."""
    seen = Observation(
        model_bits=1e6,
        local_steps=1,
        gossip_steps=1,
        edge_of_device=np.array([0, 0, 0, 1, 1]),
        cycles=np.ones(5),
        snr=np.ones(5),
        tx_power_w=np.ones(5),
        capacitance=np.ones(5),
        cpu_min_hz=np.ones(5),
        cpu_max_hz=np.ones(5),
        edge_bandwidth_hz=np.array([200.0, 1000.0]),
        laws=Laws(block_hz=100.0),
    )
    with pytest.raises(InputError, match="edge server 0 has 2 whole blocks for 3 devices"):
        shared_hz(seen, np.array([1.0, 2.0, 3.0, 1.0, 4.0]))
