"""A run as a Gymnasium environment, for policies that learn (docs/environment.md).

`import fedrt.environment` registers `fedrt/HFEL-v0` and `fedrt/HFEL-small-v0`, and so does a name
with the module in front: `gymnasium.make("fedrt.environment:fedrt/HFEL-v0")`.
"""

from __future__ import annotations

from fedrt.system.extras import need

need("the environment", "gymnasium")

import gymnasium  # noqa: E402

from fedrt.environment.env import HFELEnv as HFELEnv  # noqa: E402

__all__ = ["IDS", "HFELEnv", "register"]

IDS = {"fedrt/HFEL-v0": "full", "fedrt/HFEL-small-v0": "small"}
"""The environments by the names that `gymnasium.make` takes."""


def register() -> None:
    """Register the environments; also the entry point of versions of Gymnasium that read one."""
    for name, actions in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point="fedrt.environment.env:HFELEnv", kwargs={"actions": actions}
            )


register()
