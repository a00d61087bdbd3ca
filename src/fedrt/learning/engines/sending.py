"""Sending trained models to their edge servers through the update codec, many devices at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from fedrt.learning.codecs import Codec, ErrorFeedback, message_length, send_own
from fedrt.learning.codecs.blocks import GRIDS, Grid, grid_rows, receive_blocks, rounded
from fedrt.learning.codecs.feedback import make_format, receive
from fedrt.learning.codecs.formats import as_float32
from fedrt.learning.engines.engine import DeviceResults, IntArray, TrainingOrder
from fedrt.learning.transforms import Chain
from fedrt.messages import message_bytes

BUFFER_BYTES = 4
"""Of a number that is sent beside the parameters, such as a running mean."""
KERNEL = {*GRIDS, "float16"}
"""The codecs that a processor has a kernel for."""
HEAVY = 2**20
"""Numbers that are worth a thread."""

Program = Callable[..., tuple[Tensor, Tensor, Tensor]]
"""`receive_blocks`, or the same compiled for tensors of some sizes."""


class Uplink:
    """Sends the models of an order's devices, and records their messages' lengths.

    Devices of one order may use several codecs; those that round to levels are sent together.
    """

    def __init__(
        self,
        codec: Codec | None,
        num_parameters: int,
        order: TrainingOrder,
        results: DeviceResults,
        program: Callable[[list[Tensor]], Program] = lambda tensors: receive_blocks,
        *,
        chain: Chain | None = None,
        mirrored: bool = True,
    ) -> None:
        """`mirrored`: also do what edge servers do with updates that they decode."""
        self.chain, self.mirrored = chain or Chain(), mirrored
        self.codec, self.size = codec, num_parameters
        self.order, self.results, self.program = order, results, program
        self.states, self.row = order.codec_state, order.state_row
        self.waiting: list[tuple[IntArray, Tensor]] = []
        self.share: float | None = None
        self.names: list[str] | None = None
        if isinstance(codec, ErrorFeedback):
            self.share, self.names = codec.share, [codec.name] * len(order.devices)
        if order.codec is not None:
            self.names = [order.menu[number] for number in order.codec.tolist()]

    def send(self, place: IntArray, models: Tensor, edge: Tensor, trained: Tensor) -> None:
        """Replace what devices at the given places in the order trained by what servers decode.

        The device in row n started from the row edge[n] of `models`. Rows after those of the
        places stand for nobody, and may change.
        """
        if self.row is None or self.states is None:
            # An order that is tried out: its devices remember nothing yet.
            feedback = self.codec if self.names is None else ErrorFeedback("float32")
            self.row = np.arange(len(self.order.devices))
            self.states = self.chain.first_states(feedback, len(self.row), self.size, models)
        if not self.chain:
            self._send(place, models, edge, trained)
            return
        count, size = len(place), self.size
        starts, changes = models[edge[:count]], trained[:count, :size]
        changes -= starts[:, :size]
        self._transform(place, changes)
        if self.codec is not None or self.names is not None:
            # An update is coded as the model of a device that started from zeros.
            zeros = torch.zeros_like(models[:1])
            self._send(place, zeros, torch.zeros_like(edge), trained)
        changes += starts[:, :size]
        if self.mirrored:
            for n, number in enumerate(place.tolist()):
                given = (trained[n], starts[n], size, self.order.key(number))
                trained[n] = self.chain.received(*given)

    def _transform(self, place: IntArray, updates: Tensor) -> None:
        """Replace the updates of devices by what their transforms make of them.

        One that is not finite goes on as it is, for its server to refuse.
        """
        assert self.row is not None
        finite = updates.isfinite().all(1).tolist()
        for n, number in ((n, number) for n, number in enumerate(place.tolist()) if finite[n]):
            row = None if self.states is None else self.states[self.row[number]]
            own = self.chain.part(row, self.size, coded=self.names is not None)
            updates[n], after = self.chain.apply(updates[n].clone(), own, self.order.key(number))
            if own is not None and after is not None:
                own.copy_(after)

    def _send(self, place: IntArray, models: Tensor, edge: Tensor, trained: Tensor) -> None:
        """The same through the codec alone."""
        buffers = BUFFER_BYTES * (trained.shape[1] - self.size)
        if self.names is None:
            self._send_own(place, models[edge[: len(place)]], trained)
            assert self.codec is not None
            self.results.sent_bytes[place] = message_length(self.codec, self.size) + buffers
            return
        names = [self.names[n] for n in place.tolist()]
        lengths = {name: message_bytes(name, self.size, self.share) for name in set(names)}
        self.results.sent_bytes[place] = [lengths[name] + buffers for name in names]
        assert self.states is not None
        assert self.row is not None
        coded = self.states if self.states.shape[1] == self.size else self.states[:, : self.size]
        given = (models, edge, trained, coded, self.row[place])
        squares = self._send_shipped(names, *given)
        self.waiting.append((place, squares))

    def send_one(self, n: int, models: Tensor, edge: int, state: Tensor) -> None:
        """The same for the n-th device alone, whose model is `state`; the results are complete."""
        self.send(np.array([n]), models, torch.as_tensor([edge], device=models.device), state[None])
        self.settle()
        largest = self.results.largest
        largest[n] = np.maximum(largest[n], float(state.abs().max()))

    def settle(self) -> None:
        """Fill in the results that a GPU may still have been at work on."""
        for place, squares in self.waiting:
            norms = squares.double().sqrt().cpu().numpy()
            self.results.update_norm[place], self.results.left_norm[place] = norms
        self.waiting = []

    def _send_own(self, place: IntArray, starts: Tensor, trained: Tensor) -> None:
        states, count = None if self.chain.remembers else self.states, len(place)
        assert self.codec is not None
        assert self.row is not None
        if states is None:
            trained[:count] = send_own(self.codec, starts, trained[:count], None, self.size).rows
            return
        at = torch.as_tensor(self.row[place], device=states.device)
        sent = send_own(self.codec, starts, trained[:count], states[at], self.size)
        assert sent.states is not None
        trained[:count], states[at] = sent.rows, sent.states

    def _send_shipped(
        self,
        names: list[str],
        models: Tensor,
        edge: Tensor,
        trained: Tensor,
        states: Tensor,
        row: IntArray,
    ) -> Tensor:
        """Send through shipped codecs; the squared norms of updates and of what is left."""
        count, size = len(names), self.size
        if trained.dtype == torch.float32 and trained.device.type == "cpu":
            squares = _by_kernel(models, edge, trained, states, row, size, names)
            # The others one by one, so that what they need stays in the caches.
            for n in (n for n, name in enumerate(names) if name not in KERNEL):
                left, own = states[row[n], None], trained[n, None, :size]
                decoded_of = make_format(names[n], self.share).decoded
                found = receive(decoded_of, models[edge[n], None, :size], own, left)
                own[:], left[:], squares[:, n] = found.models, found.left, found.squares[:, 0]
            return squares
        if trained.dtype == torch.float32 and set(names) <= GRIDS.keys():
            return self._by_program(models, edge, trained, states, row, names)
        at = torch.as_tensor(row, device=states.device)
        starts = models[edge[:count], :size]
        decoded_of = lambda rows: self._decoded(names, rows)  # noqa: E731
        found = receive(decoded_of, starts, trained[:count, :size], states[at])
        trained[:count, :size], states[at] = found.models, found.left
        return found.squares

    def _by_program(
        self,
        models: Tensor,
        edge: Tensor,
        trained: Tensor,
        states: Tensor,
        row: IntArray,
        names: list[str],
    ) -> Tensor:
        """The same where all devices round to levels, on a GPU; nothing waits for it here."""
        # A program is compiled for whole chunks: the last device stands in for those that lack.
        count, lacking, size = len(names), len(trained) - len(names), self.size
        levels = grid_rows((*names, *names[-1:] * lacking), trained.device)
        whole = count == len(trained) == len(states) and bool((row == np.arange(count)).all())
        at = None
        if not whole:
            at = torch.as_tensor(np.pad(row, (0, lacking), mode="edge"), device=states.device)
        mine = states if at is None else states[at]
        given = [models[:, :size], edge, trained[:, :size], mine, *levels]
        received, left, squares = self.program(given)(*given)
        trained[:, :size] = received
        if at is None:
            states.copy_(left)
        else:
            states[at[:count]] = left[:count]
        return squares[:, :count]

    def _decoded(self, names: list[str], rows: Tensor) -> Tensor:
        """What the rows' messages decode to, each under its codec."""
        decoded = torch.empty_like(rows)
        levelled = [n for n, name in enumerate(names) if name in GRIDS]
        if levelled:
            levels = grid_rows(tuple(names[n] for n in levelled), rows.device)
            decoded[levelled] = rounded(as_float32(rows[levelled]), *levels).to(rows.dtype)
        for name in sorted(set(names) - GRIDS.keys()):
            which = [n for n, own in enumerate(names) if own == name]
            decoded[which] = make_format(name, self.share).decoded(rows[which])
        return decoded


def _by_kernel(
    models: Tensor,
    edge: Tensor,
    trained: Tensor,
    states: Tensor,
    row: IntArray,
    size: int,
    names: list[str],
) -> Tensor:
    """The same on a processor for devices with codecs of the kernel, several at a time."""
    from fedrt.learning.codecs.send_kernel import send_rows

    count, grids = len(names), [GRIDS.get(name, Grid(0, 0.0, 0)) for name in names]
    squares = np.zeros((2, count))
    levels, share, most = (np.array(values) for values in zip(*grids, strict=True))
    devices = np.array([n for n, name in enumerate(names) if name in KERNEL], dtype=np.int64)
    if not len(devices):
        return torch.from_numpy(squares)
    given = (models.numpy(), edge.numpy(), trained.numpy(), states.numpy(), row, size)
    rules = (levels, share.astype(np.float32), most, squares)
    threads = min(torch.get_num_threads(), len(devices), 1 + len(devices) * size // HEAVY)
    shares = np.array_split(devices, threads)
    if threads == 1:
        send_rows(*given, *rules, shares[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda mine: send_rows(*given, *rules, mine), shares))
    return torch.from_numpy(squares)
