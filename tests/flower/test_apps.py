"""Flower's own messages: orders go in, reports come out, and an app is otherwise left as it is."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from support.paths import ROOT

import fedrt
from fedrt.flower import Planner

pytest.importorskip("flwr", reason="Flower is not installed: make test-flower")

from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.compat.common.recorddict_compat import fitins_to_recorddict, recorddict_to_fitres
from flwr.compat.common.typing import FitIns, Parameters
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity

from fedrt.flower import PlannedGrid, orders_mod, with_plans, with_reports

FLEET = ROOT / "examples" / "flower" / "fleet.json"
NODES = [70, 20, 50, 30, 60, 10]
"""In ascending order: 10, 20, 30, 50, 60, 70 for devices 0 to 5."""

client_app = ClientApp()


@pytest.fixture(autouse=True)
def _within_a_run(monkeypatch):
    """Flower's messages know the run that they are made in."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@client_app.train()
def train(message, context):
    seen = message.content["config"]
    metrics = {"num-examples": 3, "bandwidth": seen.get("fedrt.bandwidth-hz", 0.0)}
    content = RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


@client_app.evaluate()
def evaluate(message, context):
    assert not any(name.startswith("fedrt") for name in message.content["config"])
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


class Clients(Grid):
    """A grid whose clients answer at once."""

    def __init__(self, app, silent=()):
        self.app, self.silent, self.sent = app, silent, []

    def set_run(self, run): ...

    @property
    def run(self):
        return None

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def get_node_ids(self):
        return NODES

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            self.sent.append(message)
            node = message.metadata.dst_node_id
            if node in self.silent:
                replies.append(Message(Error(1, "lost"), reply_to=message))
            else:
                replies.append(self.app(message, context_of(node)))
        return replies


def context_of(node, **config):
    return Context(
        run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config=dict(config)
    )


def messages(kind="train", nodes=NODES):
    """As strategies make them: one content for all."""
    content = RecordDict({"arrays": ArrayRecord(), "config": ConfigRecord({"lr": 0.1})})
    return [Message(content, dst_node_id=node, message_type=kind) for node in nodes]


def test_every_client_sees_its_own_orders_and_strategies_see_no_report():
    clients = Clients(with_reports(client_app))
    grid = PlannedGrid(clients, Planner(FLEET, rounds=2))
    asked = messages()
    shared = asked[0].content
    replies = grid.send_and_receive(asked)
    planned = Planner(FLEET, rounds=2).plan(range(6)).orders
    for reply in replies:
        device = sorted(NODES).index(reply.metadata.src_node_id)
        ordered = planned[device]["fedrt.bandwidth-hz"]
        assert reply.content["metrics"]["bandwidth"] == ordered
        assert [*reply.content] == ["arrays", "metrics"]
    for message in clients.sent:
        assert message.content["config"]["lr"] == 0.1
    assert dict(shared["config"]) == {"lr": 0.1}
    assert grid.planner.ledger.t == 1


def test_other_messages_pass_as_they_are():
    clients = Clients(with_reports(client_app))
    grid = PlannedGrid(clients, Planner(FLEET, rounds=2))
    replies = grid.send_and_receive(messages("evaluate"))
    assert len(replies) == 6
    assert grid.planner.ledger.t == 0
    mixed = messages("train", NODES[:2]) + messages("evaluate", NODES[2:])
    assert len(grid.send_and_receive(mixed)) == 6
    assert grid.planner.ledger.t == 1
    assert (grid.planner.ledger.spent_j > 0).sum() == 2


def test_an_app_without_reports_is_charged_what_was_planned():
    grid = PlannedGrid(Clients(client_app, silent=[20]), Planner(FLEET, rounds=2))
    replies = list(grid.send_and_receive(messages()))
    assert sum(reply.has_error() for reply in replies) == 1
    planned = Planner(FLEET, rounds=2).plan(range(6)).energy_j
    assert grid.planner.ledger.spent_j.tolist() == [planned[n] for n in range(6)]


def test_orders_are_carried_out_around_training_and_measured():
    done = []

    @contextmanager
    def act(orders):
        done.append(("begins", orders["cpu-hz"]))
        report = {}
        yield report
        report["energy-j"] = 0.0042
        done.append(("ends", orders["cpu-hz"]))

    grid = PlannedGrid(Clients(with_reports(client_app, act)), Planner(FLEET, rounds=2))
    grid.send_and_receive(messages())
    assert [what for what, _ in done] == ["begins", "ends"] * 6
    assert grid.planner.ledger.spent_j.tolist() == [0.0042] * 6


def test_a_mod_does_the_same_and_leaves_messages_without_orders_alone():
    app = ClientApp(mods=[orders_mod()])
    app.train()(train)
    (bare,) = messages(nodes=[10])
    assert [*app(bare, context_of(10)).content] == ["arrays", "metrics"]
    clients = Clients(app)
    replies = PlannedGrid(clients, Planner(FLEET, rounds=2)).send_and_receive(messages())
    assert all([*reply.content] == ["arrays", "metrics"] for reply in replies)
    report = app(clients.sent[0], context_of(70)).content["fedrt"]
    assert report["ordered-device"] == 5
    assert report["wall-s"] >= 0


def test_older_apps_find_orders_in_the_config_of_fit():
    class Old(NumPyClient):
        def fit(self, parameters, config):
            return parameters, 7, {"bandwidth": config["fedrt.bandwidth-hz"]}

    app = ClientApp(lambda context: Old().to_client())
    asked = FitIns(Parameters([], "numpy.ndarray"), {"lr": 0.1})
    content = fitins_to_recorddict(asked, keep_input=True)
    sent = [Message(content, dst_node_id=node, message_type="train") for node in NODES]
    grid = PlannedGrid(Clients(with_reports(app)), Planner(FLEET, rounds=2))
    answers = [recorddict_to_fitres(r.content, True) for r in grid.send_and_receive(sent)]
    planned = Planner(FLEET, rounds=2).plan(range(6)).orders
    device = [sorted(NODES).index(node) for node in NODES]
    ordered = [planned[n]["fedrt.bandwidth-hz"] for n in device]
    assert [answer.metrics["bandwidth"] for answer in answers] == ordered


def test_messages_to_devices_that_are_left_out_are_not_sent():
    clients = Clients(client_app)
    grid = PlannedGrid(clients, Planner(FLEET, "fedcs", rounds=2))
    assert 0 < len(list(grid.send_and_receive(messages()))) < 6


def test_nodes_stand_for_the_devices_that_are_given():
    clients = Clients(client_app)
    given = {node: n for n, node in enumerate(NODES)}
    grid = PlannedGrid(clients, Planner(FLEET, rounds=2), given)
    grid.send_and_receive(messages())
    assert [m.content["config"]["fedrt.device"] for m in clients.sent] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(fedrt.InputError, match="no device for node 99"):
        grid.send_and_receive(messages(nodes=[99]))


def test_more_clients_than_devices_are_refused():
    grid = PlannedGrid(Clients(client_app), Planner(FLEET, rounds=2))
    with pytest.raises(fedrt.InputError, match="state has 6 devices: must have one for each"):
        grid.send_and_receive(messages(nodes=[*NODES, 99]))


def test_a_run_says_which_policy_plans_and_where_plans_go(tmp_path):
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        for _ in range(context.run_config["num-server-rounds"]):
            grid.send_and_receive(messages())

    config = {"num-server-rounds": 2, "fedrt-policy": "ce-fedavg", "fedrt-out": str(tmp_path)}
    with_plans(app, FLEET)(Clients(client_app), context_of(0, **config))
    again = fedrt.plan_round(fedrt.load_state(tmp_path / "round-0002" / "state.json"), "ce-fedavg")
    assert (tmp_path / "round-0002" / "plan.json").exists()
    assert again["policy"] == "ce-fedavg"
    with pytest.raises(fedrt.InputError, match="state: must be given"):
        with_plans(app)(Clients(client_app), context_of(0))
