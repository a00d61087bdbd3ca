"""SCAFFOLD: control variates of devices and edge servers, by which gradients are corrected.

Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", 2020, option
II. A device's variate is the mean of its gradients when it last trained, its server's the mean over
the cluster's devices; a device adds their difference to its gradients, so that all devices of a
cluster move as their mean would, however different their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.rounds import ACCEPTED

IntArray = NDArray[np.int64]

DEVICES, SERVERS = "device_variates", "server_variates"
"""Their names in checkpoints."""


class Variates:
    """The variates of all devices and servers, all 0 as a run starts.

    Each server keeps its own through gossip, as only models are mixed: it stands for the gradients
    of its own cluster, and to mix it too would double what servers send each other.
    """

    def __init__(self, edge_of_device: IntArray, num_edges: int, like: NDArray[Any]) -> None:
        self.edge_of_device, size = edge_of_device, len(like)
        self.cluster_size = np.bincount(edge_of_device, minlength=num_edges)
        self.devices = np.zeros((len(edge_of_device), size), dtype=like.dtype)
        self.servers = np.zeros((num_edges, size), dtype=like.dtype)

    def correction(self, devices: IntArray, edge_of_device: IntArray) -> NDArray[Any]:
        """What devices add to their gradients: their server's variate less their own."""
        found: NDArray[Any] = self.servers[edge_of_device] - self.devices[devices]
        return found

    def after(self, order: TrainingOrder, results: DeviceResults) -> None:
        """Take the new variates of devices whose updates were accepted.

        A server's moves by the sum of its devices' changes over all devices of its cluster.
        """
        assert results.variate is not None
        came = (results.refused == ACCEPTED) & (order.local_steps > 0)
        row = order.devices if order.state_row is None else order.state_row
        who, edge = row[came], order.edge_of_device[came]
        change = results.variate[came].astype(np.float64) - self.devices[who]
        # New arrays: the old ones may be those of a saved state.
        self.devices, self.servers = self.devices.copy(), self.servers.copy()
        self.devices[who] = results.variate[came]
        for c in np.unique(edge):
            self.servers[c] += change[edge == c].sum(0) / self.cluster_size[c]

    def state(self) -> dict[str, NDArray[Any]]:
        """All variates, for a checkpoint."""
        return {DEVICES: self.devices, SERVERS: self.servers}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what was saved."""
        self.devices, self.servers = np.array(state[DEVICES]), np.array(state[SERVERS])
