"""The hindsight bound: a time that no plan of the same work and limits undercuts in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export, make_callable

if TYPE_CHECKING:
    from fedrt.bound.whole_run import hindsight_bound as hindsight_bound
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "whole_run": "hindsight_bound",
        },
    )

make_callable(__name__)
