"""Channels from logs of real networks.

`fedrt.trace_convert` makes traces from public logs of 4G and 5G networks. None is shipped: this
notebook writes three logs in the form of the Ghent 4G data set, as a phone on foot, in a bus and in
a train might have made them, and uses them as the speeds of links between edge servers.
"""

from pathlib import Path

import numpy as np

import fedrt

rng = np.random.default_rng(1)
for way, mean_bytes in [("foot", 4e6), ("bus", 2.5e6), ("train", 1.5e6)]:
    level, lines = 0.0, []
    for second in range(200):
        level = 0.95 * level + rng.normal(0, 0.15)
        received = int(mean_bytes * np.exp(level))
        stamp = 1453121750399 + 1000 * second
        lines.append(f"{stamp} {1000 * (second + 1)} 51.03 3.73 {received} 1000")
    Path(f"report_{way}.log").write_text("\n".join(lines) + "\n")

logs = ["report_foot.log", "report_bus.log", "report_train.log"]
trace = fedrt.trace_convert(
    logs, log_format="ghent", to="backhaul", links="0-1,1-2,2-0", edge_round_s=5, out="links.csv"
)
print(trace.toml)

# %% [markdown]
# Three servers in a ring, each link with the speed of one log, round by round:

# %%
ring = fedrt.scenario(
    "quickstart",
    fleet={"num_edges": 3, "num_devices": 15},
    base_graph={"kind": "ring"},
    backhaul={"kind": "trace", "file": "links.csv", "repeat": True},
)
study = fedrt.estimate(ring, policies=["ce-fedavg", "fedrt", "fedrt-plus"], progress=False)
study.summary[["policy", "total_time_s", "time_parts.backhaul_s"]].round(2)

# %% [markdown]
# Which links were used? `fedrt` leaves out the slow ones as far as the models may drift apart.

# %%
study.links.groupby(["policy", "edge", "edge2"])[["kept", "bps"]].mean().round(2)
