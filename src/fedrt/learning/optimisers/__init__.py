"""Optimisers: how a device changes its model by the gradients of a local step.

`learning.optimiser` names one of `registry.OPTIMISERS`, or the import path of a user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.optimisers.adam import Adam as Adam
    from fedrt.learning.optimisers.adam import AdamW as AdamW
    from fedrt.learning.optimisers.adjusted import Adjusted as Adjusted
    from fedrt.learning.optimisers.adjusted import make_optimiser as make_optimiser
    from fedrt.learning.optimisers.base import Optimiser as Optimiser
    from fedrt.learning.optimisers.base import Rate as Rate
    from fedrt.learning.optimisers.base import Step as Step
    from fedrt.learning.optimisers.base import Tensors as Tensors
    from fedrt.learning.optimisers.base import spread as spread
    from fedrt.learning.optimisers.base import take_step as take_step
    from fedrt.learning.optimisers.base import updated as updated
    from fedrt.learning.optimisers.sgd import SGD as SGD
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "adam": "Adam AdamW",
            "adjusted": "Adjusted make_optimiser",
            "base": "Optimiser Rate Step Tensors spread take_step updated",
            "sgd": "SGD",
        },
    )
