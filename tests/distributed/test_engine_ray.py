"""The engine on a real cluster of two nodes: the numbers of `stacked`, whoever trains and dies."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import fedrt.distributed  # noqa: F401  (settings that Ray reads as it is loaded)

ray = pytest.importorskip("ray", reason="needs the ray extra")

from support.ray_cluster import (  # noqa: E402
    Nodes,
    all_there,
    alone,
    double_case,
    engine,
    f64_recipe,
    process_of,
    train,
)

from fedrt.distributed import engine_ray as engine_module  # noqa: E402
from fedrt.distributed import pool as pool_module  # noqa: E402
from fedrt.distributed.cluster import QUIET  # noqa: E402
from fedrt.distributed.engine_ray import RayEngine, _Training  # noqa: E402
from fedrt.distributed.pool import Pool  # noqa: E402
from fedrt.errors import FedrtError, InputError  # noqa: E402
from fedrt.learning.engines.engine import DivergedError  # noqa: E402
from fedrt.learning.evaluate import accuracy  # noqa: E402
from fedrt.learning.tasks import Classification  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # Ray leaves files and sockets of processes that were killed to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

NODES = 2


@pytest.fixture(scope="module")
def nodes():
    made = Nodes(NODES)
    try:
        ray.init(address=made.address, **QUIET)
        yield made
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.shutdown()
            made.close()
            del made
            gc.collect()


@pytest.fixture(scope="module")
def case():
    return double_case()


@pytest.fixture(scope="module")
def two(nodes, case):
    """An engine with a worker on each node, and what it says."""
    made, said = engine(case, 2)
    all_there(made)
    yield made, said
    made.close()


@pytest.fixture
def fresh(nodes, two):
    """The cluster and the engine as at first, nothing said."""
    nodes.restore(NODES)
    all_there(two[0])
    two[1].clear()
    return two


def orders(case):
    """All edges, one, none, and devices out of order."""
    fields = ("devices", "edge_of_device", "local_steps", "weight")
    for chosen in (slice(None), slice(5, 7), slice(0, 0), [6, 2, 5, 0, 3, 1, 4]):
        yield replace(case.order, **{name: getattr(case.order, name)[chosen] for name in fields})


def test_the_numbers_are_those_of_stacked_for_any_number_of_workers(nodes, case, two):
    """To the bit: float64 of four edges, with one worker, with two, and in this process."""
    one, _ = engine(case, 1)
    try:
        for order in orders(case):
            wanted = alone(case).train(case.models, order)
            for made in (one, two[0]):
                got = made.train(case.models, order)
                assert torch.equal(got.models, wanted.models)
                assert (got.loss_sum == wanted.loss_sum).all()
    finally:
        one.close()


def test_several_edge_rounds_send_models_once(case, fresh, monkeypatch):
    """After a first round the workers go on from their own; the results are as if all were sent."""
    made, _ = fresh
    sent = []
    send = _Training.send

    def spy(task, worker):
        before = task.round.before.serial_of_edge
        edges = task.share.edges.tolist()
        sent.append(not all(before.get(edge) == worker.serial for edge in edges))
        return send(task, worker)

    monkeypatch.setattr(_Training, "send", spy)
    # One share each: nobody is through early and helps out with another's.
    monkeypatch.setattr(engine_module, "PIECES", 1)
    got = wanted = case.models
    for r, then in ((0, (3, 1)), (1, (3, 2)), (2, (4, 0)), (0, None)):
        order = replace(case.order, r=r, then=then)
        sent.clear()
        got = made.train(got, order).models
        wanted = alone(case).train(wanted, order).models
        assert torch.equal(got, wanted)
        assert len(sent) == 2
        assert any(sent) == all(sent) == (r == 0), r
    # Other models than those that came out last are sent whatever the workers kept.
    first = replace(case.order, then=(3, 2))
    made.train(case.models, first)
    sent.clear()
    assert torch.equal(made.train(case.models, first).models, made.train(case.models, first).models)
    assert all(sent)


def test_accuracies_are_those_measured_here(case, fresh):
    """Of 19 states, in shares of three."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(19, case.models.shape[1], generator=generator, dtype=torch.float64)
    states = case.models[:1] + 0.5 * noise
    wanted = [accuracy(case.flat, state, case.samples, Classification()) for state in states]
    assert fresh[0].evaluate(states)[:, 0].tolist() == wanted
    assert len(set(wanted)) > 2


def test_a_loss_that_is_no_number_names_the_device(case, fresh):
    """And the workers are sound for the next order."""
    broken = case.models.clone()
    broken[1, 0] = torch.nan
    with pytest.raises(DivergedError, match="loss of device 3 on edge 1 and 2 more is nan"):
        fresh[0].train(broken, case.order)
    wanted = alone(case).train(case.models, case.order).models
    assert torch.equal(train(fresh[0], case.models, case.order), wanted)


def killed_in_the_middle(case, made, number, kill):
    """The models of an order during which a worker, stopped with its share in hand, is killed."""
    process = process_of(made, number)
    os.kill(process, signal.SIGSTOP)
    timer = threading.Timer(0.7, kill, [process])
    timer.start()
    try:
        return train(made, case.models, case.order)
    finally:
        timer.join()


def test_a_worker_killed_in_mid_round_is_made_up_for(case, fresh):
    made, said = fresh
    wanted = alone(case).train(case.models, case.order).models
    serial = made.pool.there[1].serial
    got = killed_in_the_middle(case, made, 1, lambda process: os.kill(process, signal.SIGKILL))
    assert torch.equal(got, wanted)
    assert len(said) == 1
    assert said[0].startswith("lost a worker (")
    assert said[0].endswith("1 of 2 workers left; its part is done again")
    # A successor comes, and trains.
    all_there(made)
    assert made.pool.there[1].serial > serial
    assert torch.equal(train(made, case.models, case.order), wanted)


def test_a_node_killed_in_mid_round_is_made_up_for(nodes, case, fresh):
    made, said = fresh
    wanted = alone(case).train(case.models, case.order).models
    where = ray.get(made.pool.there[0].actor.__ray_call__.remote(node_of_call))
    (node,) = [node for node in nodes.nodes if node.node_id == where]

    got = killed_in_the_middle(case, made, 0, lambda process: nodes.kill(node))
    assert torch.equal(got, wanted)
    assert said
    assert said[0].startswith("lost a worker (")
    # The other node has room for the successor.
    all_there(made)
    assert torch.equal(train(made, case.models, case.order), wanted)


def node_of_call(worker) -> str:
    return ray.get_runtime_context().get_node_id()


def test_with_nobody_left_it_waits_says_so_and_goes_on(nodes, case, fresh, monkeypatch):
    """Both nodes die; a new one comes only after the user was told."""
    made, said = fresh
    wanted = alone(case).train(case.models, case.order).models
    monkeypatch.setattr(pool_module, "TELL_AFTER_S", 0.5)
    helpers = []

    def say(line):
        said.append(line)
        if line.startswith("no worker is there"):
            helpers.append(threading.Thread(target=nodes.add))
            helpers[-1].start()

    monkeypatch.setattr(made.pool, "say", say)
    processes = [process_of(made, number) for number in (0, 1)]
    for node in list(nodes.nodes):
        nodes.kill(node)
    for process in processes:
        # Left alone they would finish such a small order before they see that their node is gone.
        os.kill(process, signal.SIGKILL)
    assert torch.equal(train(made, case.models, case.order), wanted)
    for helper in helpers:
        helper.join()
    assert len(helpers) == 1
    assert "waiting for the cluster to have a processor" in "\n".join(said)
    assert said[-1].startswith("going on with ")


def test_workers_that_all_die_of_a_task_end_the_run(case, fresh, monkeypatch):
    made, _ = fresh
    monkeypatch.setattr(pool_module, "MOST_LOSSES", 2)

    class Deadly:
        owner = 0

        def send(self, worker):
            return worker.actor.__ray_call__.remote(die)

    with pytest.raises(FedrtError, match=r"2 workers were lost in a row without an answer; the"):
        made.pool.carry_out([Deadly()])
    made.pool.losses = 0
    # Nobody is left at work on what was given up.
    wanted = alone(case).train(case.models, case.order).models
    assert torch.equal(train(made, case.models, case.order), wanted)


def die(worker) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_fails_in_a_worker_is_one_line_here(case, fresh):
    class Failing:
        owner = 0

        def __init__(self, call):
            self.call = call

        def send(self, worker):
            return worker.actor.__ray_call__.remote(self.call)

    with pytest.raises(FedrtError, match=r"^training: ZeroDivisionError: division by zero$"):
        fresh[0].pool.carry_out([Failing(divide)])
    with pytest.raises(InputError, match=r"^no such thing$"):
        fresh[0].pool.carry_out([Failing(refuse)])


def divide(worker) -> float:
    return 1 / 0


def refuse(worker) -> None:
    raise InputError("no such thing")


def test_a_worker_of_another_version_is_refused(nodes, case):
    pool = Pool(f64_recipe(case, versions=("0.0", "1.0")), 1)
    try:
        with pytest.raises(InputError, match=r"^worker on .* the driver fedrt 0.0 and torch 1.0$"):
            pool.wait_for_one()
    finally:
        pool.close()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs in one machine")
def test_two_gpus_train_like_one_process(nodes, case):
    """A worker on each; float32, so to rounding."""
    made = RayEngine(Pool(f64_recipe(case), 2, gpu=True))
    try:
        wanted = alone(case).train(case.models, case.order).models
        got = made.train(case.models, case.order).models
        assert np.allclose(got, wanted, rtol=0, atol=1e-9)
    finally:
        made.close()
