"""The client's side in Flower: orders are carried out around training, and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from fedrt.flower.planner import PREFIX, REPORT, Orders
from fedrt.system.extras import need

need("the Flower adapter", "flwr")

from flwr.app import Context, Message, MetricRecord  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.clientapp.typing import ClientAppCallable  # noqa: E402

Act = Callable[[Orders], AbstractContextManager[dict[str, float]]]


@contextmanager
def only_report(orders: Orders) -> Iterator[dict[str, float]]:
    """Change nothing on this machine: the report says what was ordered."""
    yield {}


def with_reports(app: ClientApp, act: Act = only_report) -> ClientApp:
    """The same client app, around whose training `act` carries the orders out.

    `act(orders)` is a context manager that is entered before training and left after it, such as
    one that sets the CPU's frequency. It yields a dictionary; what it puts in is reported:
    `energy-j` is charged in the place of the planned energy, `snr-db` is planned with in the next
    round, `time-s` counts for the run's time, and other numbers are kept.
    """
    return _Reporting(app, orders_mod(act))


def orders_mod(act: Act = only_report) -> Callable[[Message, Context, ClientAppCallable], Message]:
    """The same as a Flower mod, for `ClientApp(mods=[...])`."""

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        orders = _orders_in(message)
        if not orders:
            return call_next(message, context)
        begin = time.perf_counter()
        with act(orders) as report:
            reply = call_next(message, context)
        if reply.has_content():
            wall_s = time.perf_counter() - begin
            numbers = {name: v for name, v in orders.items() if not isinstance(v, str)}
            ordered = {f"ordered-{name}": float(value) for name, value in numbers.items()}
            reply.content[REPORT] = MetricRecord({"wall-s": wall_s, **ordered, **report})
        return reply

    return mod


def _orders_in(message: Message) -> Orders:
    """The orders in a message, without their prefix."""
    if not message.has_content():
        return {}
    return {
        name.removeprefix(PREFIX): value
        for record in message.content.config_records.values()
        for name, value in record.items()
        if name.startswith(PREFIX)
    }


class _Reporting(ClientApp):
    """A client app with a mod around it."""

    def __init__(
        self, app: ClientApp, mod: Callable[[Message, Context, ClientAppCallable], Message]
    ) -> None:
        super().__init__()
        self._app, self._mod = app, mod

    def __call__(self, message: Message, context: Context) -> Message:
        return self._mod(message, context, self._app)
