"""FedRT: resource allocation and topology design for hierarchical federated edge learning.

The names below are loaded when first used, so that `import fedrt` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedrt.decision import load_state, plan_round, read_state
    from fedrt.errors import FedrtError, InfeasibleError, InputError
    from fedrt.policies import POLICIES
    from fedrt.scenario import load_scenario

_HOMES = {
    "load_state": "fedrt.decision",
    "read_state": "fedrt.decision",
    "plan_round": "fedrt.decision",
    "load_scenario": "fedrt.scenario",
    "POLICIES": "fedrt.policies",
    "FedrtError": "fedrt.errors",
    "InputError": "fedrt.errors",
    "InfeasibleError": "fedrt.errors",
}

__all__ = [
    "POLICIES",
    "FedrtError",
    "InfeasibleError",
    "InputError",
    "load_scenario",
    "load_state",
    "plan_round",
    "read_state",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
