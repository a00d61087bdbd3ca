"""The bench: every policy on the same fixed worlds, above a bound on plans of the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export, make_callable

if TYPE_CHECKING:
    from fedrt.bench.outcomes import other_work as other_work
    from fedrt.bench.outcomes import run_task as run_task
    from fedrt.bench.scores import bench_data as bench_data
    from fedrt.bench.worlds import WORLDS as WORLDS
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "outcomes": "other_work run_task",
            "scores": "bench_data",
            "worlds": "WORLDS",
        },
    )

make_callable(__name__)
