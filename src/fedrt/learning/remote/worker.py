"""The process that holds an edge server's model: the one of an edge server's that loads torch."""

from __future__ import annotations

import logging
import signal
import socket
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from fedrt.errors import one_line
from fedrt.learning.remote.line import ClosedLineError, receive, send, told_error
from fedrt.learning.remote.orders import KeptResult, LocalOrder
from fedrt.system.plugins import allow_from_now, set_own_folder

if TYPE_CHECKING:
    from fedrt.learning.remote.edge import EdgeModel

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """What is told of a model that was opened."""

    digest: str
    model_bytes: int
    dtype: str


class ModelWork:
    """Carries out calls to an edge server's model, which the first one opens."""

    def __init__(self) -> None:
        self._model: EdgeModel | None = None

    def carry_out(self, name: str, given: tuple[Any, ...]) -> Any:
        """The value of a call: of a method of `EdgeModel`, or of one of those below."""
        if name == "open":
            return self._open(*given)
        assert self._model is not None
        if name == "problem":
            return self._problem(*given)
        if name == "average":
            return self._average(*given)
        return getattr(self._model, name)(*given)

    def _open(self, *given: Any) -> Opened:
        from fedrt.learning.remote.edge import EdgeModel

        self._model = EdgeModel.open(*given)
        self._model.warm()
        parts = self._model.parts
        return Opened(self._model.model_digest, self._model.model_bytes, parts.dtype.str)

    def _problem(self, kept: KeptResult, order: LocalOrder) -> str | None:
        assert self._model is not None
        return self._model.problem(kept.loaded(), order)

    def _average(self, t: int, r: int, orders: Any, kept: dict[int, KeptResult]) -> Any:
        assert self._model is not None
        results = {device: each.loaded() for device, each in kept.items()}
        return self._model.average(t, r, orders, results)


def main() -> None:
    """Carry out what the process asks for that has started this one, until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the other one ends what it is at, and then this
    line = socket.socket(fileno=0)
    work = ModelWork()
    try:
        folder, paths = receive(line)
        set_own_folder(folder)
        allow_from_now(paths)
        while True:
            send(line, _answer(work, *receive(line)))
    except ClosedLineError:
        return


def _answer(work: ModelWork, name: str, given: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return {"value": work.carry_out(name, given)}
    except Exception as error:  # code of the user's may raise anything
        told = told_error(error)
        if "failed" in told:
            for line in traceback.format_exc().splitlines():  # it may quote what others sent
                log.error("%s: %s", name, one_line(line))
        return told
