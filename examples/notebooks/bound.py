"""How much is left: the hindsight bound.

No plan of the same work beats this time in a world, even one that knows the future: one that
trains as much on every device, mixes the models as far as `fedrt` does and spends no more energy
than the budgets, or than `fedrt` where that cannot keep them. So it says how far from the best of
these plans a policy is at most.
"""

import pandas as pd

import fedrt

bound = fedrt.bound(
    "quickstart",
    policies=["ce-fedavg", "static-t", "fedrt", "fedrt-plus"],
    seeds=range(2),
    progress=False,
)
bound.summary

# %% [markdown]
# `above_bound` is a share: 0.01 is one per cent above it. How much is left depends on the world;
# here with less and with more energy for each edge round, in joules:

# %%
above = {}
for joules in [0.04, 0.05, 0.08]:
    scenario = fedrt.scenario("quickstart", fleet={"energy_j_per_edge_round": joules})
    study = fedrt.bound(scenario, policies=["fedrt", "fedrt-plus"], progress=False)
    above[joules] = study.summary.set_index("policy")["above_bound"]
pd.DataFrame(above).round(3)
