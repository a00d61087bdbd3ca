"""The Gymnasium environment: checked by its own checkers, and held against `fedrt estimate`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from support.children import LIMIT_S, environment
from support.paths import ROOT

import fedrt

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from fedrt.environment import IDS, HFELEnv  # noqa: E402
from fedrt.environment.actions import scored_links  # noqa: E402
from fedrt.graph import is_connected  # noqa: E402
from fedrt.plan import plan_problems  # noqa: E402

SMALL = ("rounds.global_rounds=3",)
HARD = (
    *SMALL,
    "learning.participation=0.5",
    "base_graph.kind=ring",
    "bandwidth.block_hz=5e3",
    "faults.silent={kind='random', probability=0.2}",
)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("settings", [SMALL, HARD])
def test_gymnasium_finds_nothing_wrong(name, settings):
    env = gymnasium.make(name, settings=settings)
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", IDS)
def test_stable_baselines_finds_nothing_wrong(name):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(gymnasium.make(name, settings=SMALL).unwrapped, warn=False)


@pytest.mark.parametrize("name", IDS)
def test_the_same_seed_gives_the_same_trajectory(name):
    def trajectory():
        env = gymnasium.make(name, settings=HARD)
        views, rewards = [env.reset(seed=7)[0]], []
        env.action_space.seed(1)
        ended = False
        while not ended:
            view, reward, ended, _, _ = env.step(env.action_space.sample())
            views.append(view)
            rewards.append(reward)
        return np.array(views), np.array(rewards)

    one, two = trajectory(), trajectory()
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])
    assert len(one[1]) == 6


def test_environments_are_made_without_importing_fedrt():
    words = """
import gymnasium
assert gymnasium.make("fedrt.environment:fedrt/HFEL-v0").unwrapped.kind == "full"
assert gymnasium.make("fedrt.environment:fedrt/HFEL-small-v0").unwrapped.kind == "small"
"""
    subprocess.run([sys.executable, "-c", words], check=True, env=environment(), timeout=LIMIT_S)


def test_the_entry_point_registers_the_environments(monkeypatch):
    """Versions of Gymnasium before 1.0 load it; the wheel's is read in tools/fresh_install.sh."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name, value), *more = project["entry-points"]["gymnasium.envs"].items()
    assert (name, more) == ("fedrt", [])
    monkeypatch.setattr(gymnasium, "registry", {})
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry)
    EntryPoint(name, value, "gymnasium.envs").load()()
    assert gymnasium.registry.keys() == IDS.keys()


def test_without_a_seed_the_next_world_is_drawn():
    env = HFELEnv(settings=SMALL)
    assert env.reset(seed=3)[1]["world_seed"] == 3
    assert env.reset()[1]["world_seed"] == 4


def test_environments_run_side_by_side():
    envs = gymnasium.make_vec("fedrt/HFEL-small-v0", num_envs=3, settings=SMALL)
    views, _ = envs.reset(seed=[1, 2, 3])
    assert views.shape[0] == 3
    _, rewards, _, _, _ = envs.step(envs.action_space.sample())
    assert (rewards < 0).all()
    assert len(set(rewards.tolist())) == 3
    envs.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settings", [SMALL, HARD])
def test_every_action_is_a_plan_that_can_be_carried_out(seed, settings):
    rng = np.random.default_rng(seed)
    for actions in ("full", "small"):
        env = HFELEnv("quickstart", settings, actions)
        env.reset(seed=seed)
        ended = False
        while not ended:
            episode = env.episode
            action = rng.uniform(-1, 1, env.action_space.shape)
            plan = env._actions.plan(episode.seen, episode.books, action)
            assert plan_problems(plan, episode.seen) == []
            ended = env.carry_out(plan)[2]


def test_links_are_added_by_score_until_the_servers_are_well_enough_linked():
    env = HFELEnv("quickstart", (*SMALL, "rounds.edge_rounds=1"))
    seen = env.episode.seen
    base = seen.backhaul.base_graph
    every = scored_links(seen, np.ones(base.shape))
    np.testing.assert_array_equal(every, base)
    rng = np.random.default_rng(0)
    score = rng.uniform(-1, 0, base.shape)
    few = scored_links(seen, score + score.T)
    assert is_connected(few)
    assert few.sum() < base.sum()


def test_wrong_words_are_refused():
    with pytest.raises(fedrt.InputError, match='actions = "big"'):
        HFELEnv(actions="big")
    env = HFELEnv(settings=("rounds.global_rounds=1",))
    env.reset(seed=0)
    for _ in range(2):
        env.step(env.action_space.sample())
    with pytest.raises(fedrt.InputError, match="has ended"):
        env.step(env.action_space.sample())
