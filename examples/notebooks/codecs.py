"""Codecs, and a policy that chooses them.

An update can be sent with fewer bits. A codec for all devices is a setting; `fedrt-joint` chooses
one for every upload, together with bandwidth, frequency and links.
"""

import pandas as pd

import fedrt

times = {}
for codec in ["none", "float16", "int8", "int4", "int3"]:
    scenario = fedrt.scenario("quickstart", learning={"upload": codec})
    study = fedrt.estimate(scenario, policies=["ce-fedavg", "fedrt-plus"], progress=False)
    times[codec] = study.summary.set_index("policy")["total_time_s"]
pd.DataFrame(times).round(2)

# %% [markdown]
# What does that cost in accuracy? Four policies are trained, for six global rounds only. With a
# codec what is charged is the length of the messages that training sends.

# %%
policies = ["fedrt", "even-int8", "even-int4", "fedrt-joint"]
trained = fedrt.compare("quickstart", policies=policies, rounds=6, progress=False)
trained.plot("accuracy", against="time")

# %% [markdown]
# Which codecs `fedrt-joint` chose, over all uploads:

# %%
trained.run("fedrt-joint", 0).devices["codec"].value_counts()
