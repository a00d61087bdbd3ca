"""Policies by name. A new one is one file, one line here and one test."""

from __future__ import annotations

from collections.abc import Callable

from fedrt.checks import hint, problem
from fedrt.errors import InputError
from fedrt.policies.base import Policy
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.policies.fedrt import FedRT
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.policies.mll_sgd import MLLSGD
from fedrt.policies.static_r import StaticR
from fedrt.policies.static_t import StaticT

POLICIES: dict[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (FedRT, StaticR, StaticT, CEFedAvg, MLLSGD, FedRTPlus)
}

__all__ = ["POLICIES", "Policy", "make_policy"]


def make_policy(name: str) -> Policy:
    """The policy of that name."""
    if name not in POLICIES:
        known = list(POLICIES)
        rule = "one of " + ", ".join(known) + hint(name, known)
        raise InputError(problem("policy", name, rule))
    return POLICIES[name]()
