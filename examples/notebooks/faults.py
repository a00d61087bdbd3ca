"""When things fail.

Updates that never arrive, a server that is down for a while, slow devices, attackers. Time and
energy are still accounted for, and training goes on.
"""

import fedrt

failing = fedrt.scenario(
    "quickstart",
    faults={
        "silent": {"kind": "random", "probability": 0.1},
        "server_down": {"kind": "markov", "mean_up": 4, "mean_down": 2, "only": [0]},
        "straggler": {"kind": "random", "probability": 0.05},
        "deadline_factor": 2.0,
    },
)
good = fedrt.estimate("quickstart", policies=["fedrt", "fedrt-plus"], progress=False)
bad = fedrt.estimate(failing, policies=["fedrt", "fedrt-plus"], progress=False)
good.summary[["policy", "total_time_s", "energy_j_mean"]].merge(
    bad.summary[["policy", "total_time_s", "energy_j_mean"]],
    on="policy",
    suffixes=("", " with faults"),
).round(3)

# %% [markdown]
# One device in five of each cluster attacks: it sends its update with the sign turned round. Edge
# servers average, or take a trimmed mean, which a few wrong updates cannot move far.

# %%
attacked = fedrt.scenario("quickstart", faults={"attack": {"kind": "sign-flip", "share": 0.25}})
finals = {}
for averaging in ["uniform", "trimmed-mean", "median"]:
    changed = attacked.with_(learning={"averaging": averaging})
    finals[averaging] = fedrt.run(changed, rounds=6, progress=False).outcome["final_accuracy"]
finals["nobody attacks"] = fedrt.run(rounds=6, progress=False).outcome["final_accuracy"]
finals
