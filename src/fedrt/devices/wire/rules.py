"""Rules for the numbers of orders, which devices and edge servers check before they obey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt import quantities as q
from fedrt.scenario import Scenario
from fedrt.validation import Real, Rule, problem

LONGEST_DEADLINE_S = 1e9
MOST_SAMPLES = 10**9
"""What a device may report to have; its weight in averages may depend on it."""
PLANNED: Mapping[str, Rule] = {
    "cpu_hz": Real(least=0, most=q.CPU_HZ.most),
    "bandwidth_hz": Real(least=0, most=q.BANDWIDTH_HZ.most),
    "tx_power_w": q.TX_POWER_W,
    "rate_bps": q.LINK_BPS,
}
"""What a plan gives a device."""
DEADLINE: Mapping[str, Rule] = {"deadline_s": Real(above=0, most=LONGEST_DEADLINE_S)}


def first_problem(message: Any, path: str, rules: Mapping[str, Rule]) -> str | None:
    """The line about the first field of a message that breaks its rule; None if none does."""
    lines: list[str] = []
    for name, rule in rules.items():
        rule.read(getattr(message, name), f"{path}.{name}", lines)
    return lines[0] if lines else None


def above(path: str, value: int, most: int) -> str | None:
    """The line about a whole number that is beyond what the scenario allows; None if it is not."""
    return problem(path, value, f"at most {most}, by this scenario") if value > most else None


def most_local_steps(scenario: Scenario, edge_of_device: NDArray[np.int64], edge: int) -> int:
    """The greatest number of local steps that a plan may give a device of an edge server.

    Policies that give faster devices more steps share out those of a cluster, so that none gets
    more than all of them.
    """
    return scenario.rounds.local_steps * int((edge_of_device == edge).sum())
