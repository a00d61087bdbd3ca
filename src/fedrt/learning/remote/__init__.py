"""Training on real machines: on a device, on an edge server, and evaluation; no network.

Models and messages are bytes, everything else is plain Python and numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.remote.checks import remote_problems as remote_problems
    from fedrt.learning.remote.edge import EdgeModel as EdgeModel
    from fedrt.learning.remote.evaluator import Evaluator as Evaluator
    from fedrt.learning.remote.local import LocalTrainer as LocalTrainer
    from fedrt.learning.remote.orders import Averaged as Averaged
    from fedrt.learning.remote.orders import GossipOrder as GossipOrder
    from fedrt.learning.remote.orders import KeptResult as KeptResult
    from fedrt.learning.remote.orders import LocalOrder as LocalOrder
    from fedrt.learning.remote.orders import LocalResult as LocalResult
    from fedrt.learning.remote.orders import ModelInputs as ModelInputs
    from fedrt.learning.remote.orders import gossip_orders as gossip_orders
    from fedrt.learning.remote.orders import mean_loss as mean_loss
    from fedrt.learning.remote.process import EdgeModelProcess as EdgeModelProcess
    from fedrt.learning.remote.process import LostModelError as LostModelError
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "checks": "remote_problems",
            "edge": "EdgeModel",
            "evaluator": "Evaluator",
            "local": "LocalTrainer",
            "orders": "Averaged GossipOrder KeptResult LocalOrder LocalResult ModelInputs"
            " gossip_orders mean_loss",
            "process": "EdgeModelProcess LostModelError",
        },
    )
