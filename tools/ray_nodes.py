"""A real Ray cluster of several nodes on this machine, whose processes are there to be killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import fedrt.distributed  # noqa: F401  (settings that Ray reads as it is loaded)

# A node that was killed is noticed in a second, not in fifteen.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 3,
}
TRAINS = b"ray::EdgeWorker"
CPUS = 2
STORE = 100 * 2**20
"""Bytes of a node's object store."""


class Nodes:
    """A head without processors, which drivers join, and nodes with two each."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**head, "_system_config": QUICK}
        )
        self.nodes: list[Any] = []
        self.restore(count)

    @property
    def address(self) -> str:
        """Where it is joined."""
        return str(self.cluster.address)

    def add(self) -> None:
        """One more node; any thread may ask for it.

        Outside the main thread there are no exit hooks, and what fate a thread's children share is
        the thread's: such nodes end with `close` alone.
        """
        self.cluster._shutdown_at_exit = threading.current_thread() is threading.main_thread()
        options = {"num_cpus": CPUS, "object_store_memory": STORE}
        try:
            node = self.cluster.add_node(**options)
        except Exception:  # Ray gives a node 30 s to start; a busy machine may take longer
            node = self.cluster.add_node(**options)
        self.nodes.append(node)

    def kill(self, node: Any) -> None:
        """With -9, all its processes, and no word to anybody."""
        self.nodes.remove(node)
        for process in (raylet_of(node), *_children([raylet_of(node)])):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def restore(self, count: int) -> None:
        """As many nodes as that."""
        while len(self.nodes) < count:
            self.add()

    def workers(self) -> list[int]:
        """The processes that train, on all nodes."""
        found = _children([raylet_of(node) for node in self.nodes])
        return sorted(process for process, words in found.items() if words.startswith(TRAINS))

    def close(self) -> None:
        """End all of it."""
        self.cluster.shutdown()


def raylet_of(node: Any) -> int:
    """The process that is a node: its workers go with it."""
    return int(node.all_processes["raylet"][0].process.pid)


def _children(parents: Collection[int]) -> dict[int, bytes]:
    """The processes that those have started, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in parents:
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found
