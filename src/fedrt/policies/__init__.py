"""Policies by name. A new one is one file, one line here and one test."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from fedrt.checks import hint, problem
from fedrt.errors import InputError
from fedrt.ledger import Horizon
from fedrt.plugins import load_plugin, own_code
from fedrt.policies.base import Policy, uses_contraction_limit
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.policies.fedrt import FedRT
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.policies.mll_sgd import MLLSGD
from fedrt.policies.static_r import StaticR
from fedrt.policies.static_t import StaticT

POLICIES: dict[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (FedRT, StaticR, StaticT, CEFedAvg, MLLSGD)
} | {"fedrt-plus": FedRTPlus}

__all__ = ["POLICIES", "Policy", "make_policy"]


def make_policy(name: str) -> Policy:
    """The policy of that name, or a user's own by import path, `package.module:Name`."""
    if name in POLICIES:
        return POLICIES[name]()
    if ":" in name:
        return _own_policy(name)
    known = list(POLICIES)
    rule = f"one of {', '.join(known)}, or an import path, package:Name{hint(name, known)}"
    raise InputError(problem("policy", name, rule))


def _own_policy(path: str) -> Policy:
    plugin = load_plugin(path, "policy")
    with own_code(f"policy = {path!r}: cannot be made"):
        made = plugin()
    with own_code(f"policy = {path!r}: cannot be used"):
        lacks = [part for part in ("name", "energy_horizon", "plan") if not hasattr(made, part)]
        if lacks:
            raise InputError(f"policy = {path!r}: has no {', '.join(lacks)}; see docs/extending.md")
        if not isinstance(made.name, str):
            raise InputError(problem(f"{path}.name", made.name, "a string"))
        if made.energy_horizon not in get_args(Horizon):
            rule = "one of " + ", ".join(get_args(Horizon))
            raise InputError(problem(f"{path}.energy_horizon", made.energy_horizon, rule))
        uses_contraction_limit(made)
    policy: Policy = made
    return policy
