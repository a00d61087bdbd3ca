"""Server optimisers: how an edge server moves its model by its devices' averaged update.

`learning.server_optimiser` names one of `registry.SERVER_OPTIMISERS`, or the import path of a
user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.learning.servers.adaptive import FedAdam as FedAdam
    from fedrt.learning.servers.adaptive import FedYogi as FedYogi
    from fedrt.learning.servers.base import ServerOptimiser as ServerOptimiser
    from fedrt.learning.servers.base import Servers as Servers
    from fedrt.learning.servers.base import Tensors as Tensors
    from fedrt.learning.servers.base import make_server_optimiser as make_server_optimiser
    from fedrt.learning.servers.momentum import FedAvgM as FedAvgM
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "adaptive": "FedAdam FedYogi",
            "base": "ServerOptimiser Servers Tensors make_server_optimiser",
            "momentum": "FedAvgM",
        },
    )
