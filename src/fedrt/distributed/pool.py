"""A pool of Ray workers, and tasks that are completed even if workers fail.

A task is sent to one worker at a time and its answer taken once. A worker that is lost gets a
successor, wherever the cluster has room, and its tasks go to workers that are free. Tasks are
complete in themselves, so doing one again gives the same answer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import ray
from ray.exceptions import RayError, RayTaskError

from fedrt.distributed.worker import EdgeWorker, Recipe
from fedrt.errors import FedrtError, reason
from fedrt.learning.stacked.workers import ENVIRONMENT

TELL_AFTER_S = 20.0
"""Seconds without any worker before the user is told."""
MOST_LOSSES = 20
"""Workers lost in a row without an answer, after which the task itself is blamed."""
LONGEST_PAUSE_S = 2.0


class PoolTask(Protocol):
    """Work that any worker can do."""

    @property
    def owner(self) -> int:
        """The number of the worker that should preferably do it."""
        ...

    def send(self, worker: Worker) -> Any:
        """Start the task on a worker; return a reference to its answer."""
        ...

    def take(self, worker: Worker, answer: Any) -> None:
        """Process the answer; called once."""
        ...


@dataclass(frozen=True)
class Worker:
    """A Ray actor. A replacement has the same number and another serial."""

    number: int
    serial: int
    actor: Any
    where: str = ""


def stderr(line: str) -> None:
    """Print a message for the user on stderr."""
    print(line, file=sys.stderr, flush=True)


class Pool:
    """A pool with a fixed number of workers; those that fail are replaced."""

    def __init__(
        self,
        recipe: Recipe,
        workers: int,
        *,
        gpu: bool = False,
        own_cluster: bool = False,
        say: Callable[[str], None] = stderr,
    ) -> None:
        self.size, self.gpu, self.say = workers, gpu, say
        # With the driver's own object store: it outlives every worker.
        self.recipe = ray.put(recipe)
        resources = {"num_gpus": 1, "num_cpus": 1} if gpu else {"num_cpus": 1}
        self.remote: Any = ray.remote(EdgeWorker).options(
            **resources,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            # Processes of one's own cluster have it already, and start sooner without.
            runtime_env=None if own_cluster else {"env_vars": ENVIRONMENT},
        )
        self.serial = 0
        self.there: dict[int, Worker] = {}
        self.coming: dict[Any, Worker] = {}
        self.losses = 0
        self.silent_since: float | None = None
        for number in range(workers):
            self._recruit(number)

    def carry_out(self, tasks: Sequence[PoolTask]) -> None:
        """Complete every task once. An exception raised by a task itself ends all."""
        waiting = list(tasks)
        running: dict[Any, tuple[Worker, PoolTask]] = {}
        try:
            while waiting or running:
                busy = {worker.number for worker, _ in running.values()}
                for number in sorted(self.there.keys() - busy):
                    if waiting:
                        worker, task = self.there[number], _next(waiting, number)
                        running[task.send(worker)] = worker, task
                for ref in self._ready([*running, *self.coming]):
                    if ref in self.coming:
                        self._welcome(ref)
                        continue
                    worker, task = running.pop(ref)
                    try:
                        answer = self._get(ref)
                    except _LostError as lost:
                        waiting.insert(0, task)
                        self._replace(worker, lost)
                    else:
                        self.losses = 0
                        task.take(worker, answer)
        finally:
            # Left behind only by an error or Ctrl-C: nobody may be at work for nothing.
            for worker, _ in running.values():
                self.there.pop(worker.number, None)
                _kill(worker)
                with suppress(Exception):
                    self._recruit(worker.number)

    def wait_for_one(self) -> None:
        """Wait until a worker is ready."""
        while not self.there:
            for ref in self._ready(list(self.coming)):
                self._welcome(ref)

    def close(self) -> None:
        """End all workers."""
        for worker in (*self.there.values(), *self.coming.values()):
            _kill(worker)
        self.there, self.coming = {}, {}

    def _recruit(self, number: int) -> None:
        """Request a new worker from the cluster."""
        self.serial += 1
        worker = Worker(number, self.serial, self.remote.remote())
        ref = worker.actor.open.remote(self.recipe, "cuda" if self.gpu else "cpu")
        self.coming[ref] = worker

    def _welcome(self, ref: Any) -> None:
        """Handle a worker that has become ready or has failed to start."""
        worker = self.coming.pop(ref)
        try:
            where = self._get(ref)
        except _LostError as lost:
            self._replace(worker, lost)
            return
        self.there[worker.number] = replace(worker, where=where)
        if self.silent_since is not None:
            self.silent_since = None
            self.say(f"going on with {self._count()}")

    def _replace(self, worker: Worker, lost: _LostError) -> None:
        """Release a worker and request another."""
        self.losses += 1
        known = self.there.pop(worker.number, None) is not None
        _kill(worker)
        if self.losses > MOST_LOSSES:
            raise FedrtError(
                f"{MOST_LOSSES} workers were lost in a row without an answer; the last:"
                f" {lost}; `resume` goes on"
            )
        if known:
            self.say(
                f"lost a worker ({worker.where}): {self._count()} left; its part is done again"
            )
        time.sleep(min(LONGEST_PAUSE_S, 0.01 * 2**self.losses))
        self._recruit(worker.number)

    def _count(self) -> str:
        return f"{len(self.there)} of {self.size} workers"

    def _ready(self, refs: list[Any]) -> list[Any]:
        """The references that are ready, at least one; warns if there is no worker."""
        while True:
            patience_s = None if self.there or self.silent_since is not None else TELL_AFTER_S
            done, _ = ray.wait(refs, num_returns=1, timeout=patience_s)
            if done:
                return done
            self.silent_since = time.monotonic()
            self.say(
                f"no worker is there (0 of {self.size}): waiting for the cluster to have"
                f" {'a GPU' if self.gpu else 'a processor'} for one"
            )

    def _get(self, ref: Any) -> Any:
        """The value of a reference; `_LostError` if it was lost with its worker."""
        try:
            return ray.get(ref)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, RayError):
                raise _LostError(reason(cause)) from None
            if isinstance(cause, FedrtError):
                raise cause from None
            words = f"{type(cause).__name__}: {reason(cause)}"
            raise FedrtError(f"training: {words}") from None
        except RayError as error:
            raise _LostError(reason(error)) from None


class _LostError(Exception):
    """Raised where a worker, or a value that it held, is lost."""


def _next(waiting: list[PoolTask], number: int) -> PoolTask:
    """The next task of the worker's own, or else the last task of another."""
    for place, task in enumerate(waiting):
        if task.owner == number:
            return waiting.pop(place)
    return waiting.pop()


def _kill(worker: Worker) -> None:
    with suppress(Exception):
        ray.kill(worker.actor, no_restart=True)
