"""Training: models, local training, aggregation, gossip and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.engines.engine import DeviceResults as DeviceResults
    from fedrt.learning.engines.engine import DivergedError as DivergedError
    from fedrt.learning.engines.engine import Engine as Engine
    from fedrt.learning.engines.engine import Trained as Trained
    from fedrt.learning.engines.engine import TrainingOrder as TrainingOrder
    from fedrt.learning.engines.sequential import SequentialEngine as SequentialEngine
    from fedrt.learning.exporting import Inputs as Inputs
    from fedrt.learning.exporting import export_module as export_module
    from fedrt.learning.models.architectures import make_model as make_model
    from fedrt.learning.models.flat import FlatModel as FlatModel
    from fedrt.learning.setup import Setup as Setup
    from fedrt.learning.setup import make_setup as make_setup
    from fedrt.learning.stacked.engine import StackedEngine as StackedEngine
    from fedrt.learning.trainer import Trainer as Trainer
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "engines.engine": "DeviceResults DivergedError Engine Trained TrainingOrder",
            "engines.sequential": "SequentialEngine",
            "exporting": "Inputs export_module",
            "models.architectures": "make_model",
            "models.flat": "FlatModel",
            "setup": "Setup make_setup",
            "stacked.engine": "StackedEngine",
            "trainer": "Trainer",
        },
    )
