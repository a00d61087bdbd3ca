"""An edge server's model in a process of its own, so that an idle edge server holds no torch.

torch takes some 200 MB as soon as it is loaded and gives none of it back; a process that ends does.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pickle import PickleBuffer
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import FedrtError, InputError
from fedrt.learning.remote.line import ClosedLineError, receive, send, value_of
from fedrt.learning.remote.orders import (
    Averaged,
    GossipOrder,
    KeptResult,
    LocalOrder,
    ModelInputs,
)
from fedrt.messages import Raw
from fedrt.scenario.entries import training_paths
from fedrt.scenario.model import Scenario
from fedrt.system.extras import need
from fedrt.system.plugins import allowed, offers, own_folder

if TYPE_CHECKING:
    from fedrt.learning.remote.worker import ModelWork, Opened

END_S = 5.0
"""How long a process gets to end."""
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from fedrt.learning.remote.worker import main; main()"
)


class LostModelError(FedrtError):
    """The process with the model is gone; whoever opened it restores its state."""


class EdgeModelProcess:
    """The model of one edge server; methods are those of `EdgeModel`, for one thread at a time.

    Its process starts with the first call and after `rest` with `restore`. Objects of Python code
    cannot be sent: with them in the scenario, the model is in this process and stays.
    """

    def __init__(self, scenario: Scenario, seed: int, edge: int, inputs: ModelInputs) -> None:
        need("fedrt edge", "torch")
        self._given = (scenario, seed, edge, inputs)
        self._here = bool(offers(training_paths(scenario)))
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._work: ModelWork | None = None
        opened = self._open()
        self.model_digest, self.model_bytes = opened.digest, opened.model_bytes
        self._dtype = np.dtype(opened.dtype)

    @property
    def alive(self) -> bool:
        """Whether there is a model, in the state in which it was left."""
        return self._work is not None or (self._child is not None and self._child.poll() is None)

    def rest(self) -> None:
        """End the process: its state is gone."""
        with self._lock:
            self._end()

    def _open(self) -> Opened:
        if self._here:
            from fedrt.learning.remote.worker import ModelWork

            self._work = ModelWork()
        else:
            self._start()
        try:
            found: Opened = self._ask("open", *self._given)
        except BaseException:
            self._end()
            raise
        return found

    def _start(self) -> None:
        self._end()
        near, far = socket.socketpair()
        with far:
            words = [sys.executable, "-c", START, json.dumps(sys.path)]
            self._child, self._line = subprocess.Popen(words, stdin=far.fileno()), near
        send(near, (own_folder(), allowed()))

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._child is not None:
            try:
                self._child.wait(END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._child = self._line = None

    def _ask(self, name: str, *given: Any) -> Any:
        if self._work is not None:
            return self._work.carry_out(name, given)
        if self._line is None:
            raise LostModelError("the process with the model has ended")
        try:
            send(self._line, (name, given))
            answer = receive(self._line)
        except ClosedLineError:
            self._end()
            raise LostModelError(
                "the process with the model was killed, perhaps for memory"
            ) from None
        return value_of(answer)

    def _call(self, name: str, *given: Any) -> Any:
        with self._lock:
            return self._ask(name, *given)

    def _sent(self, raw: Raw) -> Any:
        """Bytes as they are sent to another process."""
        return raw if self._here else PickleBuffer(raw)

    def packed(self, numbers: NDArray[Any]) -> bytes:
        """The bytes of a model from a state."""
        return numbers.astype(self._dtype, copy=False).tobytes()

    def unpacked(self, raw: Raw) -> NDArray[Any]:
        """The numbers of a model from its bytes."""
        if len(raw) != self.model_bytes:
            raise InputError(f"a model of {len(raw)} bytes: must have {self.model_bytes}")
        return np.frombuffer(raw, dtype=self._dtype)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state, in a new process if there is none."""
        with self._lock:
            if not self.alive:
                self._open()
            self._ask("restore", dict(state))

    def state(self) -> dict[str, NDArray[Any]]:
        """What must survive a restart."""
        found: dict[str, NDArray[Any]] = self._call("state")
        return found

    def orders(self, t: int, r: int, *given: Sequence[Any] | None) -> list[LocalOrder]:
        """The orders for some of its devices."""
        found: list[LocalOrder] = self._call("orders", t, r, *given)
        return found

    def problem(self, kept: KeptResult, order: LocalOrder) -> str | None:
        """What is wrong with a result that has arrived; None if it can be averaged."""
        found: str | None = self._call("problem", kept, order)
        return found

    def average(
        self, t: int, r: int, orders: Sequence[LocalOrder], kept: Mapping[int, KeptResult]
    ) -> Averaged:
        """Go on to the average of what has arrived by device."""
        found: Averaged = self._call("average", t, r, list(orders), dict(kept))
        return found

    def distance_to(self, model: Raw) -> float:
        """The distance to another edge server's model."""
        return float(self._call("distance_to", self._sent(model)))

    def begin(self, order: GossipOrder) -> None:
        """Begin the gossip that ends a global round."""
        self._call("begin", order)

    def message_to(self, neighbour: int, step: int) -> bytes:
        """What a neighbour gets in a step."""
        found: bytes = self._call("message_to", neighbour, step)
        return found

    def receive(self, step: int, messages: Mapping[int, Raw]) -> None:
        """Carry out a gossip step with the messages of all neighbours."""
        self._call("receive", step, {j: self._sent(each) for j, each in messages.items()})

    def end(self) -> None:
        """Go on with the model that all steps of the gossip have given."""
        self._call("end")
