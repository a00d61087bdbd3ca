"""A run as a Gymnasium environment, for policies that learn (docs/environment.md).

`import fedrt.environment` registers `fedrt/HFEL-v0` and `fedrt/HFEL-small-v0`.
"""

from __future__ import annotations

from fedrt.system.extras import need

need("the environment", "gymnasium")

import gymnasium  # noqa: E402

from fedrt.environment.env import HFELEnv as HFELEnv  # noqa: E402

__all__ = ["IDS", "HFELEnv"]

IDS = {"fedrt/HFEL-v0": "full", "fedrt/HFEL-small-v0": "small"}
"""The environments by the names that `gymnasium.make` takes."""

for _name, _actions in IDS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(
            _name, entry_point="fedrt.environment.env:HFELEnv", kwargs={"actions": _actions}
        )
