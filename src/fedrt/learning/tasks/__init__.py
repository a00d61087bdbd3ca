"""Learning tasks: the loss that training lowers, and the measures of evaluation.

`learning.task` names one of `registry.TASKS`, or the import path of a user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.tasks.base import OwnTask as OwnTask
    from fedrt.learning.tasks.base import Task as Task
    from fedrt.learning.tasks.base import batch_loss as batch_loss
    from fedrt.learning.tasks.base import device_losses as device_losses
    from fedrt.learning.tasks.base import make_task as make_task
    from fedrt.learning.tasks.base import measure_sums as measure_sums
    from fedrt.learning.tasks.base import measured as measured
    from fedrt.learning.tasks.classification import Classification as Classification
    from fedrt.learning.tasks.multi_label import MultiLabel as MultiLabel
    from fedrt.learning.tasks.next_token import NextToken as NextToken
    from fedrt.learning.tasks.regression import Regression as Regression
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "base": "OwnTask Task batch_loss device_losses make_task measure_sums measured",
            "classification": "Classification",
            "multi_label": "MultiLabel",
            "next_token": "NextToken",
            "regression": "Regression",
        },
    )
