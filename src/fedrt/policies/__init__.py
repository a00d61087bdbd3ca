"""Policies by name. A new one is one file, one line here and one test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args, get_origin, get_type_hints

from fedrt.errors import InputError
from fedrt.ledger import Horizon
from fedrt.policies.base import (
    Policy,
    complete_plan,
    keep_all_links,
    needs_of,
)
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.policies.d_psgd_mbst import DPSGDMbst
from fedrt.policies.d_psgd_mst import DPSGDMst
from fedrt.policies.d_psgd_ring import DPSGDRing
from fedrt.policies.even_coded import even_int4, even_int8
from fedrt.policies.fedcs import FedCS
from fedrt.policies.fedrt import FedRT
from fedrt.policies.fedrt_joint import FedRTJoint
from fedrt.policies.fedrt_plus import FedRTPlus
from fedrt.policies.hfel import HFEL
from fedrt.policies.hierfavg import HierFAVG
from fedrt.policies.lroa import LROA
from fedrt.policies.matcha import Matcha
from fedrt.policies.max_min import MaxMin
from fedrt.policies.mll_sgd import MLLSGD
from fedrt.policies.oort import Oort
from fedrt.policies.proportional_fair import ProportionalFair
from fedrt.policies.spec import Spec, read_spec
from fedrt.policies.static_r import StaticR
from fedrt.policies.static_t import StaticT
from fedrt.policies.tifl import TiFL
from fedrt.system.plugins import load_plugin, own_code
from fedrt.validation import hint, problem

POLICIES: dict[str, Callable[..., Policy]] = {
    policy.name: policy for policy in (FedRT, StaticR, StaticT, CEFedAvg, MLLSGD)
} | {"fedrt-plus": FedRTPlus, "fedrt-joint": FedRTJoint}
"""The paper's policies and this project's, by name: what is compared unless others are named."""

BASELINES: dict[str, Callable[..., Policy]] = {
    "hierfavg": HierFAVG,
    "d-psgd-ring": DPSGDRing,
    "d-psgd-mst": DPSGDMst,
    "d-psgd-mbst": DPSGDMbst,
    "matcha": Matcha,
    "fedcs": FedCS,
    "oort": Oort,
    "tifl": TiFL,
    "hfel": HFEL,
    "lroa": LROA,
    "even-int8": even_int8,
    "even-int4": even_int4,
    "proportional-fair": ProportionalFair,
    "max-min": MaxMin,
}
"""Policies of other papers by name (docs/baselines.md)."""

SHIPPED = POLICIES | BASELINES
"""Every shipped policy by its name."""

__all__ = [
    "BASELINES",
    "MLLSGD",
    "POLICIES",
    "SHIPPED",
    "CEFedAvg",
    "FedRT",
    "FedRTJoint",
    "FedRTPlus",
    "Policy",
    "StaticR",
    "StaticT",
    "complete_plan",
    "keep_all_links",
    "make_policy",
]


def make_policy(text: str) -> Policy:
    """The policy of that name, or a user's own by import path, `package.module:Name`.

    Options in parentheses, `package.module:Name(alpha=0.3)`, are given to whatever makes it.
    """
    spec = read_spec(text)
    if spec.base in SHIPPED:
        _check_switches(spec)
        return SHIPPED[spec.base](**spec.options)
    if ":" in spec.base:
        return _own_policy(spec)
    known = list(SHIPPED)
    rule = f"one of {', '.join(known)}, or an import path, package:Name{hint(spec.base, known)}"
    raise InputError(problem("policy", text, rule))


def _check_switches(spec: Spec) -> None:
    """Raise an error about options of a shipped policy that it does not have."""
    if not spec.options:
        return
    maker = SHIPPED[spec.base]
    kinds = get_type_hints(maker)
    switches = {n: get_args(kind) for n, kind in kinds.items() if get_origin(kind) is Literal}
    problems = []
    for name, value in spec.options.items():
        if name not in switches:
            known = ", ".join(switches) or "no options"
            problems.append(f"policy {spec.base}: {name}: unknown option; it has {known}")
        elif value not in switches[name]:
            rule = "one of " + ", ".join(switches[name])
            problems.append(problem(f"policy {spec.base}: {name}", value, rule))
    if problems:
        raise InputError(problems)


def _own_policy(spec: Spec) -> Policy:
    path = spec.base
    plugin = load_plugin(path, "policy")
    with own_code(f"policy = {spec.text!r}: cannot be made"):
        made = plugin(**spec.options)
    with own_code(f"policy = {path!r}: cannot be used"):
        lacks = [part for part in ("name", "energy_horizon", "plan") if not hasattr(made, part)]
        if lacks:
            raise InputError(f"policy = {path!r}: has no {', '.join(lacks)}; see docs/extending.md")
        if not isinstance(made.name, str):
            raise InputError(problem(f"{path}.name", made.name, "a string"))
        if made.energy_horizon not in get_args(Horizon):
            rule = "one of " + ", ".join(get_args(Horizon))
            raise InputError(problem(f"{path}.energy_horizon", made.energy_horizon, rule))
        needs_of(made)
    policy: Policy = made
    return policy
