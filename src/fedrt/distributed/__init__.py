"""Training on a Ray cluster, with the same interface as the other engines."""

import os

# Ray reads these as it is loaded: it sends nothing home, leaves GPUs that nobody asked for alone
# without a warning, and what its own processes have to say does not land in a command's output.
# Workers of a cluster started from here do not give way to every other process on the machine, as
# Ray would have it (15): they do the work.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
