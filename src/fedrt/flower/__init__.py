"""Plans for Flower apps: each client is told its bandwidth and CPU frequency (docs/flower.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.flower.client import orders_mod as orders_mod
    from fedrt.flower.client import with_reports as with_reports
    from fedrt.flower.planner import Planner as Planner
    from fedrt.flower.server import PlannedGrid as PlannedGrid
    from fedrt.flower.server import with_plans as with_plans
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "client": "orders_mod with_reports",
            "planner": "Planner",
            "server": "PlannedGrid with_plans",
        },
    )
