"""Studies, one per command: a trained run, an estimate, a comparison, a sweep, a size, a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.studies.bound import Bound as Bound
    from fedrt.studies.bound import BoundResult as BoundResult
    from fedrt.studies.bound import compare_to_bound as compare_to_bound
    from fedrt.studies.branch import start_branch as start_branch
    from fedrt.studies.compare import Comparison as Comparison
    from fedrt.studies.compare import go_on as go_on
    from fedrt.studies.compare import read_comparison as read_comparison
    from fedrt.studies.compare import start_comparison as start_comparison
    from fedrt.studies.compare import training_comparison as training_comparison
    from fedrt.studies.estimates import comparison as comparison
    from fedrt.studies.estimates import estimate as estimate
    from fedrt.studies.estimates import estimate_run as estimate_run
    from fedrt.studies.estimates import over_seeds as over_seeds
    from fedrt.studies.estimates import savings as savings
    from fedrt.studies.front import FrontPoint as FrontPoint
    from fedrt.studies.front import efficient as efficient
    from fedrt.studies.front import front_points as front_points
    from fedrt.studies.sizing import Sizing as Sizing
    from fedrt.studies.sizing import Try as Try
    from fedrt.studies.sizing import search as search
    from fedrt.studies.sizing import size as size
    from fedrt.studies.span import Span as Span
    from fedrt.studies.span import read_span as read_span
    from fedrt.studies.sweep import PointResults as PointResults
    from fedrt.studies.sweep import Sweep as Sweep
    from fedrt.studies.sweep import plan_sweep as plan_sweep
    from fedrt.studies.sweep import read_vary as read_vary
    from fedrt.studies.sweep import run_sweep as run_sweep
    from fedrt.studies.training import carry_on as carry_on
    from fedrt.studies.training import start_run as start_run
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "bound": "Bound BoundResult compare_to_bound",
            "branch": "start_branch",
            "compare": "Comparison go_on read_comparison start_comparison training_comparison",
            "estimates": "comparison estimate estimate_run over_seeds savings",
            "front": "FrontPoint efficient front_points",
            "sizing": "Sizing Try search size",
            "span": "Span read_span",
            "sweep": "PointResults Sweep plan_sweep read_vary run_sweep",
            "training": "carry_on start_run",
        },
    )
