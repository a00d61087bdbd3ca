"""What loggers take from records and scenarios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedrt.callbacks.base import Record, RunInfo
from fedrt.scenario.tables.fields import table_of


def numbers_in(record: Record) -> dict[str, float]:
    """The numbers of a record that were measured, without the number of its round."""
    return {
        name: float(value)
        for name, value in record.items()
        if name != "global_round" and isinstance(value, int | float) and math.isfinite(value)
    }


def settings_of(run: RunInfo) -> dict[str, str]:
    """The policy, the seed and every setting of a run's scenario, by name."""
    found = {"policy": run.policy, "seed": str(run.seed)}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                add(f"{name}.{key}" if name else key, item)
        else:
            found[name] = str(value)

    add("", table_of(run.scenario))
    return found
