"""Aggregators: how an edge server makes one model of those that its devices send.

`learning.averaging` names one of `registry.AGGREGATORS`, or the import path of a user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.aggregators.base import Aggregator as Aggregator
    from fedrt.learning.aggregators.base import aggregated as aggregated
    from fedrt.learning.aggregators.base import averaging_weights as averaging_weights
    from fedrt.learning.aggregators.base import is_linear as is_linear
    from fedrt.learning.aggregators.base import make_aggregator as make_aggregator
    from fedrt.learning.aggregators.mean import Mean as Mean
    from fedrt.learning.aggregators.mean import SamplesMean as SamplesMean
    from fedrt.learning.aggregators.median import Median as Median
    from fedrt.learning.aggregators.trimmed_mean import TrimmedMean as TrimmedMean
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "base": "Aggregator aggregated averaging_weights is_linear make_aggregator",
            "mean": "Mean SamplesMean",
            "median": "Median",
            "trimmed_mean": "TrimmedMean",
        },
    )
