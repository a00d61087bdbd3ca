"""The Ray cluster of a run: one started on this machine, or one at an address.

Trusted networks only: whoever reaches a Ray cluster can run code on it. One of a run's own listens
on the loopback address alone, so that only this machine reaches it.
"""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

import fedrt
from fedrt.errors import FedrtError, InputError, reason
from fedrt.learning.stacked.workers import ENVIRONMENT
from fedrt.system.children import environment
from fedrt.system.machine import cores
from fedrt.validation import shown

LOCAL = "local"
LOOPBACK = "127.0.0.1"
PORT = 6379
"""Ray's own default."""
ANSWER_S = 30.0
"""How long a cluster may take to answer at all; a busy machine takes seconds."""
STARTS = 3
"""Tries to start a cluster: Ray gives its processes 30 s, and a busy machine may take longer."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


@dataclass(frozen=True)
class Connection:
    """A connection of this process to a cluster."""

    mine: bool
    """Whether it was joined for this run, and so has to be left."""
    own: bool = False
    """Whether it was started for this run: its processes have the environment of workers."""

    def end(self) -> None:
        """Disconnect; a cluster that was started for the run ends too."""
        if self.mine:
            ray.shutdown()


def connect(address: str | None, workers: int | None) -> Connection:
    """Connect to a cluster, or start one with a number of workers, by default one per core.

    A process that has joined one already stays with it.
    """
    if ray.is_initialized():
        return Connection(mine=False)
    own = address in (None, LOCAL)
    # Ray has its workers take modules from the driver's current folder before all others.
    with warnings.catch_warnings(), chdir(Path(fedrt.__file__).parents[1]):
        warnings.simplefilter("ignore")
        if own:
            _start(workers or cores())
        else:
            _join(str(address))
    return Connection(mine=True, own=own)


def capacity(resource: str) -> int:
    """The number of processors (`CPU`) or GPUs (`GPU`) that the cluster has now."""
    held: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return int(held.get(resource, 0))


def read_address(text: str) -> tuple[str, int]:
    """The host and port in an address, with Ray's default port."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, PORT
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        rule = f"must be HOST, HOST:PORT or {LOCAL}"
        raise InputError(f"`address` {shown(text)}: {rule}")
    return host, int(port)


def _start(workers: int) -> None:
    for tries in range(1, STARTS + 1):
        try:
            with environment(ENVIRONMENT), _on_loopback() as where:
                ray.init(address=LOCAL, num_cpus=workers, include_dashboard=False, **where, **QUIET)
            _refuse_other_addresses()
        except FedrtError:
            raise
        except Exception as error:
            with suppress(Exception):
                ray.shutdown()
            if tries == STARTS:
                words = f"no cluster could be started: {_short(error)}"
                raise FedrtError(f"`engine` ray: {words}") from None
        else:
            return


@contextmanager
def _on_loopback() -> Iterator[dict[str, Any]]:
    """Make Ray's own processes use the loopback address only, in the block.

    By itself Ray puts a machine's address in its place wherever clusters are supported: it does not
    on the systems where they are not, so for a cluster of one machine this is taken for one.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        with environment({ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}):
            yield {"_node_ip_address": LOOPBACK}
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _refuse_other_addresses() -> None:
    """End a cluster that other machines could reach, since they could run code on it."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    found = {str(node["NodeManagerAddress"]) for node in nodes}
    if found != {LOOPBACK}:
        ray.shutdown()
        what = (
            f"Ray {ray.__version__} listens on {', '.join(sorted(found))}, not on {LOOPBACK} alone"
        )
        raise FedrtError(f"`engine` ray: {what}; start one yourself and give `address`")


def _join(address: str) -> None:
    host, port = read_address(address)
    nobody = f"`address` {shown(address)}: no Ray cluster answers there"
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S) as line:
            numeric = line.getpeername()[0]
            if not _speaks_http2(line):
                raise InputError(nobody)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{nobody}: {reason(error)}") from None
    where = f"[{numeric}]:{port}" if ":" in numeric else f"{numeric}:{port}"
    try:
        ray.init(address=where, **QUIET)
    except Exception as error:
        with suppress(Exception):
            ray.shutdown()
        raise InputError(
            f"`address` {shown(address)}: cannot be joined; this machine must be part of the"
            f" cluster (ray start --address={where}): {_short(error)}"
        ) from None


def _speaks_http2(line: socket.socket) -> bool:
    """Whether a server at an address speaks HTTP/2, as Ray's do.

    Ray itself would try for 40 s before it gave up on anything else.
    """
    line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    answer = line.recv(9)
    return len(answer) == 9 and answer[3] == 4


def _short(error: BaseException) -> str:
    return reason(error).split(". ")[0][:300]
