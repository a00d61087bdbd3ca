"""Your own policy.

A policy is a class with a name and a method `plan`. This one lets all devices of a cluster take
equally long to send: devices with bad channels get more bandwidth.
"""

import numpy as np

import fedrt
from fedrt.control import allocate_at, prune_greedily
from fedrt.policies import complete_plan


class SameUpload:
    name, energy_horizon = "same-upload", "exact"

    def plan(self, seen: fedrt.Observation, books: fedrt.Books) -> fedrt.Plan:
        need = 1 / np.log2(1 + seen.snr)  # hertz for each bit per second
        share = need / seen.sum_by_edge(need)[seen.edge_of_device]
        bandwidth_hz = share * seen.edge_bandwidth_hz[seen.edge_of_device]
        allocation = allocate_at(seen, bandwidth_hz, books.allowance_j("exact"))
        return complete_plan(
            seen, books, allocation, links=prune_greedily, allocation_is_optimal=False
        )


# %%
policies = ["ce-fedavg", SameUpload, "fedrt", "fedrt-plus"]
study = fedrt.estimate("quickstart", policies=policies, seeds=range(3), progress=False)
study.plot("energy_j_mean", against="time")

# %% [markdown]
# How far is each from the best that any plan could do, even one that knows the future?

# %%
bound = fedrt.bound("quickstart", policies=policies, progress=False)
bound.summary

# %% [markdown]
# What it decided, device by device: the worse a channel, the more bandwidth.

# %%
first = study.run("same-upload", 0).devices.query("global_round == 0 and edge_round == 0")
first[["device", "edge", "bandwidth_hz", "cpu_hz", "upload_s", "energy_j"]].head(8).round(3)
