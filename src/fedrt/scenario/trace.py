"""Values over time from a file or from a user's own class, as several sections take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedrt import quantities as q
from fedrt.scenario.tables.fields import setting
from fedrt.validation import Flag, Text


@dataclass(frozen=True)
class Trace:
    """Values from a CSV or Parquet file (docs/scenarios.md has the columns)."""

    kind: ClassVar[str] = "trace"
    file: str = setting(Text())
    repeat: bool = setting(Flag(), False)
    """Start again from the first round when the trace ends."""


@dataclass(frozen=True)
class ScaledTrace(Trace):
    """A trace whose values are multiplied by `scale`."""

    scale: float = setting(q.SCALE, 1.0)


@dataclass(frozen=True)
class Custom:
    """A user's own class: its import path, and the options to make it with."""

    kind: str
    options: Mapping[str, Any]
