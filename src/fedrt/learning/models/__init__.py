"""Neural network architectures, and modules whose state is one flat vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.models.architectures import LeNet5 as LeNet5
    from fedrt.learning.models.architectures import ResNet20 as ResNet20
    from fedrt.learning.models.architectures import SmallCNN as SmallCNN
    from fedrt.learning.models.architectures import SmoothCNN as SmoothCNN
    from fedrt.learning.models.architectures import cycles_per_sample as cycles_per_sample
    from fedrt.learning.models.architectures import make_model as make_model
    from fedrt.learning.models.architectures import parameter_count as parameter_count
    from fedrt.learning.models.flat import FlatModel as FlatModel
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "architectures": (
                "LeNet5 ResNet20 SmallCNN SmoothCNN cycles_per_sample make_model parameter_count"
            ),
            "flat": "FlatModel",
        },
    )
