"""Time against energy.

Energy budgets are cut and raised, and every policy plans the same training under each.
"""

import fedrt

front = fedrt.front(
    "quickstart",
    policies=["ce-fedavg", "fedrt", "fedrt-plus"],
    budgets=[0.02, 0.03, 0.045, 0.07, 0.1],
    progress=False,
)
front.plot()

# %% [markdown]
# A point is efficient if every device keeps its budget and no other such point is as good in both
# and better in one. Points with a device over its budget carry a ring.

# %%
front.summary.drop(columns="over_by_seed").round(3)
