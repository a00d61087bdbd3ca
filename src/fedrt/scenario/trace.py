"""Values over time from a file, as several sections of a scenario take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrt.scenario.fields import setting
from fedrt.validation import Flag, Text


@dataclass(frozen=True)
class Trace:
    """Values from a CSV or Parquet file (docs/scenarios.md has the columns)."""

    kind: ClassVar[str] = "trace"
    file: str = setting(Text())
    repeat: bool = setting(Flag(), False)
    """Start again from the first round when the trace ends."""
