"""An environment for policies that learn.

`fedrt/HFEL-small-v0` is a run as a Gymnasium environment: a step is an edge round, an action three
numbers. Here a simple search improves a constant action; docs/environment.md has the whole of it,
and `examples/learned_policy.py` trains an agent with PPO.
"""

import gymnasium
import numpy as np

import fedrt
import fedrt.environment

env = gymnasium.make("fedrt/HFEL-small-v0", scenario="quickstart")
env.observation_space.shape, env.action_space


# %%
def episode(action: np.ndarray, seed: int) -> float:
    """The rewards of a whole run in which every action is the same."""
    env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        _, reward, ended, _, _ = env.step(action)
        total += float(reward)
    return total


even = np.zeros(3, dtype=np.float32)
episode(even, seed=0)

# %% [markdown]
# Thirty random changes, each kept if it is better in two worlds:

# %%
rng = np.random.default_rng(0)
best, score = even, sum(episode(even, seed) for seed in (0, 1))
for _ in range(30):
    other = np.clip(best + rng.normal(0, 0.3, 3), -1, 1).astype(np.float32)
    reached = sum(episode(other, seed) for seed in (0, 1))
    if reached > score:
        best, score = other, reached
best.round(2)

# %% [markdown]
# In a world that it has not seen, beside what policies do there:

# %%
env.reset(seed=7)
study = fedrt.estimate(
    "quickstart", policies=["ce-fedavg", "fedrt-plus"], seeds=[7], progress=False
)
times = dict(zip(study.summary["policy"], study.summary["total_time_s"].round(1), strict=True))
times | {"even": round(-episode(even, 7), 1), "searched": round(-episode(best, 7), 1)}
