"""The server's side in Flower: orders go out with the messages that ask clients to train."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrt.errors import InputError
from fedrt.flower.planner import REPORT, Orders, Planner, Report
from fedrt.policies import Policy
from fedrt.system.extras import need

need("the Flower adapter", "flwr")

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402

log = logging.getLogger("flwr")


def with_plans(
    app: ServerApp,
    state: Mapping[str, Any] | str | Path | None = None,
    policy: str | Policy = "fedrt",
    rounds: int | None = None,
    out: str | Path | None = None,
) -> ServerApp:
    """The same server app, whose clients are told their bandwidth and CPU frequency in each round.

    `state` is a JSON file of `fedrt plan` or its contents, with a device for each client; `rounds`
    is the number of rounds that budgets are for. A run's config may have `fedrt-state`,
    `fedrt-policy` and `fedrt-out`, which count before the parameters; `num-server-rounds` counts
    where `rounds` is not given. In the folder `out` every round leaves its state, plan and replies.
    """
    wrapped = ServerApp()

    @wrapped.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        found = config.get("fedrt-state") or state
        if found is None:
            raise InputError("state: must be given, here or as fedrt-state in the run's config")
        planner = Planner(
            found,
            config.get("fedrt-policy") or policy,
            config.get("num-server-rounds") if rounds is None else rounds,
            config.get("fedrt-out") or out,
        )
        app(PlannedGrid(grid, planner), context)

    return wrapped


class PlannedGrid(Grid):
    """A grid that adds orders to messages for training, and takes the reports out of the replies.

    Clients stand for the planner's devices in the order of their node ids, unless `device_of_node`
    says otherwise.
    """

    def __init__(
        self, grid: Grid, planner: Planner, device_of_node: Mapping[int, int] | None = None
    ) -> None:
        self._grid, self.planner = grid, planner
        self._device_of_node = dict(device_of_node or {})
        self._given = device_of_node is not None

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages without waiting, as they are: nobody says when such a round ends."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages, with orders if they ask for training, and wait for the replies."""
        messages = list(messages)
        asked = [message for message in messages if _trains(message)]
        if not asked:
            return self._grid.send_and_receive(messages, timeout=timeout)
        device = self._devices([message.metadata.dst_node_id for message in asked])
        planned = self.planner.plan(list(device.values()))
        log.info(
            "fedrt: round %s is planned to take %.4g s (%s)",
            planned.number,
            planned.plan["round_time_s"],
            planned.plan["status"],
        )
        sent = []
        for message in messages:
            if not _trains(message):
                sent.append(message)
            elif (orders := planned.orders.get(device[message.metadata.dst_node_id])) is not None:
                sent.append(_with_orders(message, orders))
        replies = list(self._grid.send_and_receive(sent, timeout=timeout))
        reports = {}
        for reply in replies:
            if _trains(reply) and reply.has_content():
                reports[device[reply.metadata.src_node_id]] = _take_report(reply)
        for line in self.planner.charge(reports):
            log.warning("fedrt: %s; what was planned is charged", line)
        return replies

    def _devices(self, nodes: Sequence[int]) -> dict[int, int]:
        """For each node, its device."""
        known = self._device_of_node
        if not self._given:
            for node in sorted({*self._grid.get_node_ids(), *nodes} - known.keys()):
                known[node] = len(known)
        lines = [f"device_of_node: has no device for node {n}" for n in nodes if n not in known]
        if lines:
            raise InputError(lines)
        most = max(known[node] for node in nodes)
        if most >= len(self.planner.devices):
            has = f"has {len(self.planner.devices)} devices"
            raise InputError(f"state {has}: must have one for each client, {most + 1} at least")
        return {node: known[node] for node in nodes}


def _trains(message: Message) -> bool:
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def _with_orders(message: Message, orders: Orders) -> Message:
    """The message with orders in its config record; the record may be shared by all messages."""
    content = message.content
    name = next(iter(content.config_records), "config")
    record = ConfigRecord({**content.config_records.get(name, {}), **orders})
    message.content = RecordDict({**content, name: record})
    return message


def _take_report(reply: Message) -> Report:
    """A client's report, which strategies that average metrics must not see."""
    record = reply.content.metric_records.get(REPORT)
    if record is None:
        return {}
    reply.content = RecordDict({k: v for k, v in reply.content.items() if k != REPORT})
    return {name: float(value) for name, value in record.items() if not isinstance(value, list)}
