"""What a policy decides for one edge round: plain data, priced by `cost`, executed by an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Status = Literal["optimal", "feasible", "best-effort"]


@dataclass(frozen=True)
class Plan:
    """Bandwidth, frequency and steps of every device; links and gossip in the last edge round."""

    status: Status
    """`optimal`: proven least round time. `feasible`: keeps every limit. `best-effort`: no plan,
    or none of this policy's kind, keeps every limit, and this one breaks at least one."""
    bandwidth_hz: NDArray[np.float64]
    cpu_hz: NDArray[np.float64]
    local_steps: NDArray[np.int64]
    gossip_steps: int
    topology: NDArray[np.bool_] | None = None
    """C x C adjacency of the links to use; None before the last edge round."""
