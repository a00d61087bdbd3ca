"""A policy that learns: PPO on the small environment, acting on an even split.

Needs `pip install 'fedrt[gym]' stable-baselines3`. Trains on one core, then runs the agent on
worlds that it has not seen, beside the even split, FedRT and fedrt-plus:

    python examples/learned_policy.py quickstart --steps 400000 --out learned.json

400,000 edge rounds take seven to eight minutes of one core's time. Every scenario gets an agent.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import fedrt
import fedrt.environment

UNSEEN = 10_000
"""The first seed of the worlds that training never draws."""
BESIDE = ("ce-fedavg", "fedrt", "fedrt-plus")
ENVS = 8
GAMMA = 0.99


class DrawnWorlds(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Every episode runs in another world, drawn among the first `UNSEEN`."""

    def __init__(self, env: gymnasium.Env[Any, Any], key: int) -> None:
        super().__init__(env)
        self._seeds = np.random.default_rng(key)

    def reset(self, **_: Any) -> Any:
        return self.env.reset(seed=int(self._seeds.integers(UNSEEN)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", default=["quickstart"])
    parser.add_argument("--steps", type=int, default=400_000, help="edge rounds to train on")
    parser.add_argument("--worlds", type=int, default=20, help="unseen worlds to run it on")
    parser.add_argument("--seed", type=int, default=0, help="of the agent and its training worlds")
    parser.add_argument("--out", type=Path, help="where to write the scores as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for scenario in args.scenarios:
        before, cpu_s = time.perf_counter(), time.process_time()
        agent, scales = train(scenario, args.steps, args.seed)
        trained = {
            "algorithm": "PPO",
            "library": f"stable-baselines3 {version('stable-baselines3')}",
            "env_steps": agent.num_timesteps,
            "seeds": f"drawn from 0 to {UNSEEN - 1}",
            "agent_seed": args.seed,
            "cpu_s": round(time.process_time() - cpu_s, 1),
            "wall_s": round(time.perf_counter() - before, 1),
            "date": datetime.now(UTC).date().isoformat(),
        }
        row = score(agent, scales, scenario, range(UNSEEN, UNSEEN + args.worlds))
        options = f"--steps {args.steps} --worlds {args.worlds} --seed {args.seed}"
        command = f"python {row['source']} {scenario} {options}"
        rows.append({**row, "trained": trained, "command": command})
        show(rows[-1])
    if args.out is not None:
        args.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def train(scenario: str, steps: int, seed: int) -> tuple[PPO, VecNormalize]:
    """An agent, and the scales of what it sees."""

    def make(key: int) -> gymnasium.Env[Any, Any]:
        env = gymnasium.make("fedrt/HFEL-small-v0", scenario=scenario)
        return Monitor(DrawnWorlds(env, ENVS * seed + key))

    envs = DummyVecEnv([lambda key=key: make(key) for key in range(ENVS)])
    scales = VecNormalize(envs, gamma=GAMMA)
    agent = PPO(
        "MlpPolicy",
        scales,
        learning_rate=lambda left: 1e-3 * max(left, 0.0),  # the last batch goes past the end
        n_steps=512,
        batch_size=512,
        gamma=GAMMA,
        policy_kwargs={"log_std_init": -1.0},
        seed=seed,
        device="cpu",
    )
    agent.learn(steps)
    scales.training = False
    return agent, scales


def score(agent: PPO, scales: VecNormalize, scenario: str, seeds: range) -> dict[str, Any]:
    """What the agent takes in each world, and what shipped policies take in the same ones."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "estimate"
        found = fedrt.estimate(
            scenario,
            policies=list(BESIDE),
            seeds=list(seeds),
            out=out,
            device_rows=False,
            progress=False,
        ).summary
        known = json.loads((out / "environment.json").read_text())
    fields = {"time_s": "total_time_s"} | {
        name: name for name in ("energy_j_mean", "over_budget_devices", "over_budget_j")
    }
    beside = {}
    for policy in BESIDE:
        rows = found[found.policy == policy].set_index("seed").loc[list(seeds)]
        beside[policy] = {name: rows[column].tolist() for name, column in fields.items()}
    own = [run_agent(agent, scales, scenario, seed) for seed in seeds]
    return {
        "name": "ppo on an even split",
        "source": "examples/learned_policy.py",
        "world": scenario,
        "settings": [],
        "seeds": list(seeds),
        "acts_on": "ce-fedavg",
        **{name: [each[name] for each in own] for name in fields},
        "beside": beside,
        "bound_s": None,
        "environment": known,
    }


def run_agent(agent: PPO, scales: VecNormalize, scenario: str, seed: int) -> dict[str, float]:
    """The seconds, joules and overspend of the agent in one world."""
    env = fedrt.environment.HFELEnv(scenario, actions="small")
    view, info = env.reset(seed=seed)
    ended = False
    while not ended:
        action, _ = agent.predict(scales.normalize_obs(view), deterministic=True)
        view, _, ended, _, info = env.step(action)
    ledger = env.episode.ledger
    return {
        "time_s": info["time_s"],
        "energy_j_mean": float(ledger.spent_j.mean()),
        "over_budget_devices": int((ledger.overspent_j > 0).sum()),
        "over_budget_j": info["overspent_j"],
    }


def show(row: dict[str, Any]) -> None:
    print(row["world"])
    usual = np.array(row["beside"]["ce-fedavg"]["time_s"])
    for name, each in {row["name"]: row, **row["beside"]}.items():
        saved = 1 - np.mean(np.array(each["time_s"]) / usual)
        print(
            f"{name:21} {np.mean(each['time_s']):10.5g} s ({saved:6.1%} less than ce-fedavg), "
            f"{np.mean(each['energy_j_mean']):.5g} J a device, "
            f"overspent {np.mean(each['over_budget_j']):.4g} J"
        )


if __name__ == "__main__":
    main()
