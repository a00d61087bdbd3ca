"""Tasks of the bench in several processes, each result as soon as it is there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any, NamedTuple

from fedrt.bench.bounds import make_bound
from fedrt.bench.outcomes import run_task
from fedrt.errors import FedrtError, InfeasibleError, InputError
from fedrt.system.children import SAFE_PATH, deaf_children, environment, without_main
from fedrt.system.plugins import PYTHON, allow_from_now, allowed, own_folder, set_own_folder

ENVIRONMENT = SAFE_PATH | {"OMP_NUM_THREADS": "1"}
"""Of a process that works on one thread, and takes no module from the current folder."""
KINDS = {kind.__name__: kind for kind in (FedrtError, InputError, InfeasibleError)}


class BenchTask(NamedTuple):
    """One policy on one world and seed; without a policy, the bound of the world."""

    world: str
    policy: str | None
    seed: int


Done = Iterator[tuple[BenchTask, dict[str, Any]]]


def carry_out(task: BenchTask) -> dict[str, Any]:
    """The result of a task, in this process."""
    if task.policy is None:
        return make_bound(task.world, task.seed)
    return run_task(task.world, task.policy, task.seed)


def carry_out_all(
    tasks: Sequence[BenchTask], jobs: int
) -> Iterator[tuple[BenchTask, dict[str, Any]]]:
    """The results of tasks, each as soon as it is there, from as many processes as `jobs`.

    Objects of Python code stay in this process: what they are cannot be sent.
    """
    own = [task for task in tasks if task.policy and task.policy.startswith(f"{PYTHON}:")]
    others = [task for task in tasks if task not in own]
    if jobs == 1 or len(others) < 2:
        own, others = [*others, *own], []
    if others:
        yield from _in_processes(others, min(jobs, len(others)))
    for task in own:
        yield task, carry_out(task)


def _in_processes(
    tasks: Sequence[BenchTask], jobs: int
) -> Iterator[tuple[BenchTask, dict[str, Any]]]:
    with _processes(jobs) as pool:
        with environment(ENVIRONMENT), deaf_children(), without_main():
            futures = {pool.submit(_sent, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], _received(future)
        except BrokenProcessPool:
            raise FedrtError(
                "a process of the bench was killed, perhaps for memory; try fewer `jobs`"
            ) from None


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, at once if it fails or is interrupted."""
    before = set(active_children())
    start = (own_folder(), allowed())
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, start)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - before:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(folder: str | None, paths: frozenset[str] | None) -> None:
    """What a process does first: leave Ctrl-C to the one that started it, and trust as it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    set_own_folder(folder)
    allow_from_now(paths)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, which tells nobody if killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _sent(task: BenchTask) -> dict[str, Any]:
    """The result of a task, or what is to be told of its error, which cannot always be sent."""
    try:
        return {"result": carry_out(task)}
    except FedrtError as error:
        kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in KINDS)
        return {"error": kind, "lines": error.lines}


def _received(future: Future[dict[str, Any]]) -> dict[str, Any]:
    found = future.result()
    if "error" in found:
        raise KINDS[found["error"]](found["lines"])
    result: dict[str, Any] = found["result"]
    return result


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))
