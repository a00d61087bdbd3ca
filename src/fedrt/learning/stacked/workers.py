"""The stacked engine in several processes, each training a share of the devices.

Models and partial sums lie in shared memory; only orders and losses are sent. The sums are added in
the order of the workers, so a number of workers always gives the same bits.
"""

from __future__ import annotations

import pickle
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.multiprocessing as mp
from torch import Tensor

from fedrt.errors import FedrtError, reason
from fedrt.learning.engines.engine import (
    DeviceResults,
    Trained,
    TrainingOrder,
    edge_starts,
    part_of,
    trained,
)
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.resources import refuse_too_little, scarce, why_it_died
from fedrt.learning.stacked.shared_states import SharedStates, StatesForm, receive_states
from fedrt.system.children import SAFE_PATH, deaf_children, environment, without_main

# Freed memory stays with the process: taking it anew from the system for every step costs more
# than the arithmetic saves.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
ENVIRONMENT = KEEP_MEMORY | SAFE_PATH | {"OMP_NUM_THREADS": "1"}
"""Of a process that trains on one thread, and takes no module from the current folder."""
END_S = 5.0
"""How long a process may take to end by itself once its link is closed; then it is killed."""

MakeEngine = Callable[[], StackedEngine]


class WorkerEngine:
    """The stacked engine in several processes; `make` must be picklable.

    Where it says `whole_edges`, no two of them train devices of one edge: its models must all be
    there before they are averaged.
    """

    name = "stacked"

    def __init__(self, make: MakeEngine, models: Tensor, workers: int) -> None:
        self.whole_edges: bool = getattr(make, "whole_edges", False)
        sums = 8 * workers * models.numel()
        refuse_too_little(make, (models.nbytes, sums), workers)
        self.form: str = getattr(make, "form", "grouped")
        self.models = torch.empty_like(models).share_memory_()  # type: ignore[no-untyped-call]
        self.totals = torch.zeros((workers, *models.shape), dtype=torch.float64).share_memory_()  # type: ignore[no-untyped-call]
        self.states: SharedStates | None = None
        # An object of Python code cannot be sent: a copy of this process has it.
        copied: bool = getattr(make, "copied", False)
        context: Any = mp.get_context("fork" if copied else "spawn")
        self.links: list[Any] = []
        self.processes: list[Any] = []
        try:
            with environment(ENVIRONMENT), deaf_children(), without_main(), _no_warning(copied):
                for number in range(workers):
                    here, there = context.Pipe()
                    mine = [here, *self.links] if copied else []
                    args = (make, there, self.models, self.totals[number], mine)
                    process = context.Process(target=_work, args=args, daemon=True)
                    process.start()
                    there.close()
                    self.links.append(here)
                    self.processes.append(process)
        except BaseException as error:
            for process in self.processes:
                process.kill()
            self.close()
            if (told := scarce(error)) is not None:
                raise told from None
            raise

    def hold_states(self, states: Tensor) -> Tensor:
        """The states in memory that the processes see; of a second trainer, those it has."""
        if self.states is not None:
            return states
        self.states = SharedStates(states, len(self.links))
        for number, (link, process) in enumerate(zip(self.links, self.processes, strict=True)):
            self._send(number, self.states.form)
            try:
                self.states.send(link, process.pid)
            except OSError:
                raise self._why_it_died(number) from None
        return self.states.tensor

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        if order.codec_state is None:
            return self._train(models, order)
        shared = self.hold_states(order.codec_state) if self.states is None else self.states.tensor
        states, rows = order.codec_state, torch.as_tensor(order.state_row)
        if states is shared:
            return self._train(models, replace(order, codec_state=None))
        # A second trainer has states of its own, or one that shares its results a copy: they pass
        # through the memory of the first, which has its own back afterwards.
        held = shared[rows]
        shared[rows] = states[rows]
        found = self._train(models, replace(order, codec_state=None))
        states[rows], shared[rows] = shared[rows], held
        return found

    def _train(self, models: Tensor, order: TrainingOrder) -> Trained:
        self.models.copy_(models)
        whole = self.whole_edges or order.screening is not None
        shares = split_order(order, len(self.links), whole_edges=whole)
        for number, (_, share) in enumerate(shares):
            self._send(number, share)
        results = DeviceResults.blank(order)
        # Every answer is taken before one that failed is raised: none is left for the next order.
        answers = [self._receive(number) for number in range(len(self.links))]
        for answer, (part, _) in zip(answers, shares, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            results.put(part, answer)
        return trained(models, self.totals.sum(0), order, results)

    def _send(self, number: int, what: TrainingOrder | StatesForm) -> None:
        try:
            self.links[number].send(what)
        except OSError:
            raise self._why_it_died(number) from None

    def _receive(self, number: int) -> Any:
        try:
            return self.links[number].recv()
        except (EOFError, OSError):
            return self._why_it_died(number)

    def _why_it_died(self, number: int) -> FedrtError:
        self.processes[number].join(timeout=END_S)
        return why_it_died(self.processes[number].exitcode)

    def close(self) -> None:
        """End the processes."""
        for link in self.links:
            link.close()
        for process in self.processes:
            process.join(timeout=END_S)
            if process.is_alive():
                process.kill()
                process.join()
        if self.states is not None:
            self.states.close()


def split_order(
    order: TrainingOrder, shares: int, *, whole_edges: bool
) -> list[tuple[slice, TrainingOrder]]:
    """The order split into shares with about equal numbers of local steps.

    With `whole_edges` an edge's devices stay together: the share's worker averages them.
    """
    done = np.cumsum(order.local_steps)
    middle = done - order.local_steps / 2
    cuts = np.searchsorted(middle, order.local_steps.sum() * np.arange(1, shares) / shares)
    if whole_edges:
        between = [*edge_starts(order.edge_of_device), len(order.devices)]
        cuts = np.array(between)[np.searchsorted(between, cuts)]
    ends = [0, *cuts.tolist(), len(order.devices)]
    parts = [slice(a, b) for a, b in pairwise(ends)]
    return [(part, part_of(order, part)) for part in parts]


def _work(make: MakeEngine, link: Any, models: Tensor, total: Tensor, others: list[Any]) -> None:
    """The loop of a worker process: receive an order, train it, add up, answer.

    `others` are the parent's ends of links that a copied process has inherited: while one is open
    here, nobody notices that the parent has gone.
    """
    for each in others:
        each.close()
    # Ctrl-C reaches the whole group; the parent finishes its writing and then ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    torch.set_num_threads(1)
    # Where the parent has gone, or never said a word, there is nobody to tell.
    with suppress(EOFError, ConnectionError):
        engine, states = None, None
        while True:
            order = link.recv()
            if isinstance(order, StatesForm):
                states = receive_states(link, order)
                continue
            try:
                engine = engine or make()
                total.zero_()
                answer: Any = engine.add_up(models, replace(order, codec_state=states), total)
            except Exception as error:
                answer = scarce(error) or _sendable(error)
            link.send(answer)


def _sendable(error: Exception) -> Exception:
    """The error, or its text in another error if it cannot be sent between processes."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return FedrtError(f"training: {type(error).__name__}: {reason(error)}")
    return error


@contextmanager
def _no_warning(copied: bool) -> Iterator[None]:
    """Keep Python from warning that a process with threads is copied.

    A copy trains on one thread and waits for none that it has not started itself.
    """
    with warnings.catch_warnings():
        if copied:
            warnings.simplefilter("ignore", DeprecationWarning)
        yield
