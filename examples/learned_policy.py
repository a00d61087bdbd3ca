"""A policy that learns: PPO on the small environment, acting on an even split.

Needs `pip install 'fedrt[gym]' stable-baselines3`. Trains in a few minutes on two cores, then runs
the agent on worlds it has not seen, beside the even split and FedRT:

    python examples/learned_policy.py --steps 40000 --worlds 20
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import fedrt.environment
from fedrt.policies import make_policy

UNSEEN = 10_000
"""Seeds of worlds that training never draws."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="quickstart")
    parser.add_argument("--steps", type=int, default=40_000, help="edge rounds to train on")
    parser.add_argument("--worlds", type=int, default=20, help="unseen worlds to run it on")
    parser.add_argument("--out", type=Path, help="where to write the times as JSON")
    args = parser.parse_args()
    agent, envs = train(args.scenario, args.steps)
    seconds = {"ppo": [], "ce-fedavg": [], "fedrt": []}
    for seed in range(UNSEEN, UNSEEN + args.worlds):
        seconds["ppo"].append(run_agent(agent, envs, args.scenario, seed))
        for name in ("ce-fedavg", "fedrt"):
            seconds[name].append(run_policy(name, args.scenario, seed))
    for name, values in seconds.items():
        times = [each["time_s"] for each in values]
        over = [each["overspent_j"] for each in values]
        print(f"{name:10} {np.mean(times):10.2f} s, overspent {np.mean(over):.3g} J")
    if args.out is not None:
        about = {"scenario": args.scenario, "steps": args.steps, "worlds": args.worlds}
        args.out.write_text(json.dumps({**about, "runs": seconds}, indent=1) + "\n")


def train(scenario: str, steps: int) -> tuple[PPO, VecNormalize]:
    """An agent, and the scales of what it sees."""
    name = "fedrt/HFEL-small-v0"
    envs = make_vec_env(name, n_envs=4, seed=0, env_kwargs={"scenario": scenario})
    envs = VecNormalize(envs, gamma=0.99)
    agent = PPO("MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.99, seed=0, device="cpu")
    agent.learn(steps)
    envs.training = False
    return agent, envs


def run_agent(agent: PPO, envs: VecNormalize, scenario: str, seed: int) -> dict[str, float]:
    """The seconds and the overspend of the agent in one world."""
    env = gymnasium.make("fedrt/HFEL-small-v0", scenario=scenario)
    view, info = env.reset(seed=seed)
    ended = False
    while not ended:
        action, _ = agent.predict(envs.normalize_obs(view), deterministic=True)
        view, _, ended, _, info = env.step(action)
    return {"time_s": info["time_s"], "overspent_j": info["overspent_j"]}


def run_policy(name: str, scenario: str, seed: int) -> dict[str, float]:
    """The seconds and the overspend of a policy in the same world."""
    env = fedrt.environment.HFELEnv(scenario)
    env.reset(seed=seed)
    policy, ended, info = make_policy(name), False, {}
    while not ended:
        _, _, ended, _, info = env.carry_out(env.plan_of(policy))
    return {"time_s": info["time_s"], "overspent_j": info["overspent_j"]}


if __name__ == "__main__":
    main()
