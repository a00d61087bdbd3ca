"""Whether edge servers screen updates: `learning.screening`, and its old place in `[faults]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedrt.scenario.model import Scenario

REFUSE_NORM = 10.0
MOVED = {"refuse": "screening", "refuse_norm": "refuse_norm"}
"""Settings of `[faults]` that moved to `[learning]`."""


def screening_norm(scenario: Scenario, *, real: bool = False) -> float | None:
    """How many times the usual norm an update may have; None where updates are not screened.

    `real`: on real devices, which screen by default; simulated runs do with a section `[faults]`.
    """
    learning, faults = scenario.learning, scenario.faults
    chosen, most = learning.screening, learning.refuse_norm
    if chosen is None and faults is not None:
        chosen = faults.refuse
    if most is None and faults is not None:
        most = faults.refuse_norm
    if chosen is None:
        chosen = real or faults is not None
    if not chosen:
        return None
    return REFUSE_NORM if most is None else most


def moved_notes(scenario: Scenario) -> tuple[str, ...]:
    """A note for each setting that stands in its old place."""
    faults = scenario.faults
    return tuple(
        f"note: scenario.faults.{old} belongs to [learning]: scenario.learning.{new}"
        for old, new in MOVED.items()
        if getattr(faults, old, None) is not None
    )


def moved_problems(scenario: Scenario) -> list[str]:
    """A line for each setting that is given in both places."""
    faults, learning = scenario.faults, scenario.learning
    return [
        f"scenario.learning.{new}: give it or faults.{old}, not both"
        for old, new in MOVED.items()
        if getattr(faults, old, None) is not None and getattr(learning, new) is not None
    ]
