"""Your own fleet, and how much bandwidth it takes.

A fleet of phones and watches at six depots as a value of Python; then the least bandwidth for a
deadline.
"""

import fedrt

fleet = {
    "num_edges": 6,
    "num_devices": 90,
    "cluster_sizes": [25, 20, 15, 10, 10, 10],
    "classes": [
        {"name": "phone", "count": 60, "cpu_max_hz": 1.2e9, "energy_j_per_edge_round": 0.15},
        {"name": "watch", "cpu_max_hz": 6e8, "energy_j_per_edge_round": 0.08},
    ],
}
depots = fedrt.scenario(
    "quickstart",
    name="depots",
    fleet=fleet,
    channel={"kind": "gauss-markov", "mean_db": 10, "std_db": 4, "correlation": 0.9},
    bandwidth={"kind": "constant", "hz": [5e6, 5e6, 3e6, 2e6, 2e6, 2e6]},
    base_graph={"kind": "ring"},
    learning={"model_bits": 1e6},
)
study = fedrt.estimate(depots, policies=["ce-fedavg", "fedrt", "fedrt-plus"], progress=False)
study.summary[["policy", "total_time_s", "over_budget_devices", "over_budget_j"]].round(1)

# %% [markdown]
# Most devices are over their budgets: sending takes too long. Which bandwidth would do, for a
# minute and with every device within its budget?

# %%
sized = fedrt.size(depots, deadline="1min", vary={"bandwidth.scale": (1, 4)}, progress=False)
sized.plot()

# %% [markdown]
# A scenario is a value: `with_` returns a changed copy. With twice the bandwidth the budgets hold.

# %%
wider = depots.with_(bandwidth={"scale": 2})
study = fedrt.estimate(wider, policies=["ce-fedavg", "fedrt", "fedrt-plus"], progress=False)
study.summary[["policy", "total_time_s", "over_budget_devices", "over_budget_j"]].round(1)

# %% [markdown]
# As a file it is TOML, which reads back as the same value.

# %%
print(fedrt.scenario_text(wider)[:560])
