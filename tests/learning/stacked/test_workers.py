"""Training in several processes: the same numbers, and what happens when one of them fails."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.children import LIMIT_S
from support.learning_cases import CPU, SHAPES, Case, engine_case, method

from fedrt.data.batches import Batches
from fedrt.errors import FedrtError
from fedrt.learning.engines.engine import DivergedError, TrainingOrder
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.models.architectures import make_model
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.stacked import workers
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.workers import WorkerEngine, split_order
from fedrt.system.children import deaf_children

pytestmark = pytest.mark.numerical

FIELDS = ("devices", "edge_of_device", "local_steps", "weight")
ODD_ROUND = 66
CHUNK = 2


class OddError(Exception):
    """One that cannot be made anew from what it says."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class Touchy(StackedEngine):
    """An engine that fails in some rounds, where it has device 0."""

    def add_trained(self, models, order, total):
        if order.t == ODD_ROUND and 0 in order.devices:
            raise [ValueError("a round\nof no use"), OddError("very", "odd")][order.r]
        return super().add_trained(models, order, total)


@dataclass(frozen=True)
class Recipe:
    """What `WorkerRecipe` does, without a scenario."""

    samples: TensorSamples
    batches: Batches
    dtype: torch.dtype
    fails: bool = False

    def __call__(self) -> StackedEngine:
        if self.fails:
            raise ValueError("no engine here")
        model = FlatModel(make_model("small-cnn", SHAPES["small-cnn"], 5, 99), self.dtype, CPU)
        options = {"augment": False, "chunk": CHUNK}
        return Touchy(model, self.samples, self.batches, method(), **options)


def recipe(case: Case, **changes) -> Recipe:
    return replace(Recipe(case.samples, case.batches, case.models.dtype), **changes)


@pytest.fixture(scope="module")
def case() -> Case:
    return engine_case("sequential", dtype="float64")


@pytest.fixture(scope="module")
def pool(case):
    engine = WorkerEngine(recipe(case), case.models, 2)
    yield engine
    engine.close()


def some(order: TrainingOrder, chosen) -> TrainingOrder:
    return replace(order, **{name: getattr(order, name)[chosen] for name in FIELDS})


def gap(case: Case, one: torch.Tensor, two: torch.Tensor) -> float:
    moved = (one - case.models).double().norm(dim=1)
    apart = (one - two).double().norm(dim=1)
    assert not apart[moved == 0].any()
    return float((apart[moved > 0] / moved[moved > 0]).max())


def test_two_workers_give_what_one_process_gives(case, pool, record_property):
    alone = recipe(case)()
    for chosen in (slice(None), slice(0, 2), [6, 2, 5]):
        order = some(case.order, chosen)
        here, there = alone.train(case.models, order), pool.train(case.models, order)
        worst = gap(case, here.models, there.models)
        record_property("oracle", {"worst two workers against one process, float64": worst})
        assert worst <= 1e-12
        np.testing.assert_allclose(there.loss_sum, here.loss_sum, rtol=1e-12)
        again = pool.train(case.models, order)
        assert torch.equal(again.models, there.models)
        assert (again.loss_sum == there.loss_sum).all()


def test_fewer_devices_than_workers(case, pool):
    """A worker without a device adds nothing, also right after one with some."""
    pool.train(case.models, case.order)
    order = replace(some(case.order, slice(5, 6)), weight=np.ones(1))
    here = recipe(case)().train(case.models, order).models
    there = pool.train(case.models, order).models
    assert gap(case, here, there) <= 1e-12
    nobody = some(case.order, slice(0, 0))
    done = pool.train(case.models, nobody)
    assert torch.equal(done.models, case.models)
    assert done.loss_sum.shape == (0,)


def test_a_loss_that_is_no_number_names_the_device(case, pool):
    """The sums of the other devices are untouched in the next order."""
    broken = case.models.clone()
    broken[1, 0] = torch.nan
    with pytest.raises(DivergedError, match="loss of device 3 on edge 1 and 2 more is nan"):
        pool.train(broken, case.order)
    assert torch.isfinite(pool.train(case.models, case.order).models).all()


def test_an_error_in_a_worker_reaches_the_parent_and_the_next_order_is_sound(case, pool):
    wanted = pool.train(case.models, case.order).models
    with pytest.raises(ValueError, match="a round\nof no use"):
        pool.train(case.models, replace(case.order, t=ODD_ROUND, r=0))
    assert torch.equal(pool.train(case.models, case.order).models, wanted)
    with pytest.raises(FedrtError, match=r"^training: OddError: very odd$"):
        pool.train(case.models, replace(case.order, t=ODD_ROUND, r=1))
    # The other worker's answer to that was not taken for one to this.
    other = some(case.order, slice(2, 7))
    here = recipe(case)().train(case.models, other).models
    assert gap(case, here, pool.train(case.models, other).models) <= 1e-12


def test_workers_leave_ctrl_c_to_the_parent(case, pool):
    for process in pool.processes:
        os.kill(process.pid, signal.SIGINT)
    wanted = recipe(case)().train(case.models, case.order).models
    assert gap(case, wanted, pool.train(case.models, case.order).models) <= 1e-12
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


class Impatient(Recipe):
    """A recipe during whose sending somebody presses Ctrl-C."""

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGINT)
        return Recipe, (self.samples, self.batches, self.dtype)


def test_ctrl_c_while_the_workers_start_is_heard_afterwards(case):
    others = set(multiprocessing.active_children())
    make = Impatient(case.samples, case.batches, case.models.dtype)
    with pytest.raises(KeyboardInterrupt):
        WorkerEngine(make, case.models, 2)
    assert set(multiprocessing.active_children()) <= others
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_waits_for_the_last_worker_also_where_another_thread_takes_it():
    """The other thread has the signal unblocked, so the system gives it to that one."""
    through, over = [], threading.Event()

    def interrupted() -> None:
        with deaf_children():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            through.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        over.set()
        thread.join()
    assert through == [True]


def test_a_worker_hears_no_ctrl_c_before_it_begins(case):
    """The interpreter of a worker takes seconds to start, and would die of it."""
    pool = WorkerEngine(recipe(case), case.models, 1)
    try:
        os.kill(pool.processes[0].pid, signal.SIGINT)
        wanted = recipe(case)().train(case.models, case.order).models
        assert gap(case, wanted, pool.train(case.models, case.order).models) <= 1e-12
    finally:
        pool.close()


def test_float32_then_a_killed_worker_then_close(record_property, monkeypatch):
    # The other one is to end by itself, however slow the machine is.
    monkeypatch.setattr(workers, "END_S", LIMIT_S)
    case = engine_case("sequential")
    pool = WorkerEngine(recipe(case), case.models, 2)
    try:
        here = recipe(case)().train(case.models, case.order).models
        worst = gap(case, here, pool.train(case.models, case.order).models)
        record_property("oracle", {"worst two workers against one process, float32": worst})
        assert worst <= 1e-6
        pool.processes[1].kill()
        pool.processes[1].join()
        for _ in range(2):
            with pytest.raises(FedrtError) as caught:
                pool.train(case.models, case.order)
            (line,) = caught.value.lines
            assert line.startswith("a training process was killed, perhaps for want of memory: ")
            assert line.endswith("; `resume` goes on")
    finally:
        pool.close()
    assert not any(process.is_alive() for process in pool.processes)
    assert pool.processes[0].exitcode == 0
    pool.close()


def test_a_worker_that_cannot_make_its_engine_says_why(case):
    pool = WorkerEngine(recipe(case, fails=True), case.models, 1)
    try:
        with pytest.raises(ValueError, match="no engine here"):
            pool.train(case.models, case.order)
    finally:
        pool.close()


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 9))
def test_shares_are_all_devices_in_order_and_balanced(steps, shares):
    """No share is further from its part of the steps than the longest device."""
    count = len(steps)
    order = TrainingOrder(
        t=1,
        r=2,
        devices=np.arange(count) + 3,
        edge_of_device=np.arange(count) // 2,
        local_steps=np.array(steps, dtype=np.int64),
        weight=np.arange(count) / 7,
    )
    split = split_order(order, shares, whole_edges=False)
    assert len(split) == shares
    for name in FIELDS:
        joined = np.concatenate([getattr(share, name) for _, share in split])
        np.testing.assert_array_equal(joined, getattr(order, name))
    for part, share in split:
        np.testing.assert_array_equal(order.devices[part], share.devices)
        assert (share.t, share.r) == (1, 2)
        assert abs(share.local_steps.sum() - sum(steps) / shares) <= max(steps, default=0)


@pytest.mark.parametrize(("devices", "shares"), [(72, 2), (2, 2), (8, 4)])
def test_equal_devices_are_shared_equally(case, devices, shares):
    order = replace(
        case.order,
        devices=np.arange(devices),
        edge_of_device=np.zeros(devices, dtype=np.int64),
        local_steps=np.full(devices, 10),
        weight=np.full(devices, 1 / devices),
    )
    lengths = {len(share.devices) for _, share in split_order(order, shares, whole_edges=False)}
    assert lengths == {devices // shares}
