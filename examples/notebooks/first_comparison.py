"""A first comparison.

Seven policies plan the same training on the same simulated fleet. Nothing is trained: times and
energies come from the cost model.
"""

import fedrt

study = fedrt.estimate("quickstart", seeds=range(3), progress=False)
columns = ["policy", "total_time_s", "energy_j_mean", "over_budget_j"]
study.summary[columns].groupby("policy", sort=False).mean().round(3)

# %% [markdown]
# Every run has tables: `rounds`, `edges`, `links` and `devices`. Where does the time of a global
# round go, in the mean over edge servers?

# %%
parts = ["compute_s", "upload_s", "backhaul_s", "waiting_s"]
spent = study.edges.groupby("policy", sort=False)[parts].sum()
(spent.div(spent.sum(axis=1), axis=0) * 100).round(1)

# %% [markdown]
# Energy against time, with the spread over the three worlds. Policies differ in how soon they are
# done; the energy budget is the same for all.

# %%
study.plot("energy_j_mean", against="time")

# %% [markdown]
# How many links does each policy use for gossip, of the ten between five servers?

# %%
study.links.groupby(["policy", "seed", "global_round"])["kept"].sum().groupby("policy").mean()
