"""The stacked engine: a chunk of devices trained as one model, step by step together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.data.batches import Batches
from fedrt.learning.codecs.blocks import receive_blocks
from fedrt.learning.engines.engine import (
    DeviceResults,
    Trained,
    TrainingOrder,
    own_randomness,
    trained,
)
from fedrt.learning.engines.local_steps import PlainSteps
from fedrt.learning.engines.method import Method, StepInputs
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.engines.screening import EdgeServer, needs_rows, train_edge_by_edge
from fedrt.learning.engines.sending import Program, Uplink
from fedrt.learning.models.architectures import model_code
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.stacked.stack import STACKED_FORMS, StackedModule
from fedrt.learning.stacked.step import ChunkState, StepRule

IntArray = NDArray[np.int64]

PLAIN = ("plain", "channels-last")
"""Forms in which the module itself trains one device after the other."""
FORMS = (*PLAIN, *STACKED_FORMS)
"""How local steps are carried out on a processor; which is fastest is measured."""

BLOCK = 16_384
"""Devices whose batches are drawn together: memory for them stays bounded."""


_Draws = tuple[IntArray, IntArray | None, IntArray]
"""The batches of a block of devices for all steps, their augmentation, and their models' seeds."""


@dataclass(frozen=True)
class _Chunk:
    """The devices of an order that are trained at once."""

    edges: Tensor
    weight: Tensor
    chosen: Tensor
    shifts: Tensor | None
    counts: Tensor
    uneven: bool
    seed: int
    """Of what the model draws by itself, as dropout does."""
    corrections: Tensor | None = None
    """What SCAFFOLD adds to the devices' gradients."""


class StackedEngine:
    """Trains a chunk of devices at a time, with the results of the sequential engine.

    Devices with fewer steps than others of their chunk do nothing once they have finished. With
    `by_edge` no chunk holds devices of two edges: the model of an edge then does not depend, to
    the bit, on which other edges are in the order.
    """

    name = "stacked"

    def __init__(
        self,
        model: FlatModel,
        samples: TensorSamples,
        batches: Batches,
        method: Method,
        *,
        augment: bool,
        chunk: int,
        compiled: bool = False,
        half: bool = False,
        by_edge: bool = False,
        form: str = "grouped",
    ) -> None:
        self.model, self.samples, self.batches = model, samples, batches
        self.method, self.augment, self.chunk, self.compiled = method, augment, chunk, compiled
        self.by_edge = by_edge
        # A compiler makes its own of convolutions; written out as products they would hide.
        self.form = "grouped" if compiled else form
        plain = self.form in PLAIN
        stacked = StackedModule(model.module, form="grouped" if plain else self.form)
        self.notes = [] if plain else stacked.notes
        self.rule = StepRule(stacked, samples, method, half)
        self.coding: Callable[[list[Tensor]], Program] = lambda tensors: receive_blocks
        self.all_steps: Callable[..., tuple[Tensor, Tensor]] = self._take_steps
        if plain:
            last = self.form == "channels-last"
            self.all_steps = PlainSteps(model, samples, method, half, last)
        if compiled:
            from fedrt.learning.stacked.compiled import CompiledSteps, compiled_coding

            self.all_steps = CompiledSteps(self.rule, model)
            self.coding = compiled_coding
        self.ahead: tuple[bytes, _Draws] | None = None

    def train(self, models: Tensor, order: TrainingOrder) -> Trained:
        total = torch.zeros(models.shape, dtype=torch.float64, device=models.device)
        return trained(models, total, order, self.add_up(models, order, total))

    def add_up(self, models: Tensor, order: TrainingOrder, total: Tensor) -> DeviceResults:
        """Put the new models of the order's edge servers into their rows of `total`."""
        aggregator = self.method.aggregator
        if not needs_rows(order, aggregator):
            return self.add_trained(models, order, total)
        # Whole edges at a time, as few as fill a chunk: what comes next is not drawn ahead.
        order = replace(order, then=None)
        server = EdgeServer(aggregator, self.model.num_parameters)
        given = (models, order, total, server)
        return train_edge_by_edge(self.train_rows, *given, group=self.chunk)

    def train_rows(self, models: Tensor, order: TrainingOrder) -> tuple[Tensor, DeviceResults]:
        """The model that every device sends, one per row, and the device results."""
        rows = torch.empty(
            (len(order.devices), models.shape[1]), dtype=models.dtype, device=models.device
        )
        return rows, self.add_trained(models, order, rows=rows)

    def add_trained(
        self,
        models: Tensor,
        order: TrainingOrder,
        total: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> DeviceResults:
        """Add every trained model times its weight to its edge server's row of `total`.

        And put it into its own row of `rows`, where that is given.
        """
        results = DeviceResults.blank(order)
        results.sent_bytes[:] = models.element_size() * models.shape[1]
        uplink, codec, size = None, self.method.codec, self.model.num_parameters
        if self.method.sends_updates(order.codec):
            uplink = Uplink(codec, size, order, results, self.coding, chain=self.method.chain)
        blocks, given = self._blocks(order), self.method.inputs_at(order.t)
        for places in blocks:
            block = np.concatenate(places)
            draws = self._draw(order.t, order.r, order, block)
            waiting, first = [], 0
            for place in places:
                chunk = self._chunk(order, place, draws, first, models.device)
                with model_code(self.model.module):
                    own = given._replace(corrections=chunk.corrections)
                    joined, losses = self._train_chunk(models, chunk, own)
                if chunk.corrections is not None and results.variate is not None:
                    count = len(place)
                    starts, more = models[chunk.edges[:count]], chunk.corrections[:count]
                    held = (starts, joined[:count], more, order.local_steps[place])
                    results.variate[place] = self.method.mean_gradients(order.t, *held)
                largest = _largest(joined)
                if uplink is not None:
                    uplink.send(place, models, chunk.edges, joined)
                    largest = torch.maximum(largest, _largest(joined))
                if total is not None:
                    _add_up(total, chunk, joined)
                if rows is not None:
                    rows[torch.as_tensor(place, device=rows.device)] = joined[: len(place)]
                waiting.append((place, torch.stack([losses, largest])))
                first += len(place)
            if models.is_cuda and order.then is not None and len(blocks) == 1:
                # A GPU is still at work: draw what most likely comes next.
                self._draw(*order.then, order, block)
            for place, both in waiting:
                found = both.cpu().numpy()[:, : len(place)]
                results.loss_sum[place], results.largest[place] = found
            if uplink is not None:
                uplink.settle()
        return results

    def _blocks(self, order: TrainingOrder) -> list[list[IntArray]]:
        """The chunks of an order, in blocks whose mini-batches are drawn together.

        Devices of equal steps are side by side, so that few stand still.
        """
        if self.by_edge:
            return _edge_blocks(order, self.chunk)
        by_steps = np.argsort(-order.local_steps, kind="stable")
        blocks = [by_steps[start : start + BLOCK] for start in range(0, len(by_steps), BLOCK)]
        return [
            [block[first : first + self.chunk] for first in range(0, len(block), self.chunk)]
            for block in blocks
        ]

    def _draw(self, t: int, r: int, order: TrainingOrder, block: IntArray) -> _Draws:
        """The mini-batches of a block of devices in edge round (t, r), cached for one use."""
        steps, devices = int(order.local_steps[block].max()), order.devices[block]
        key = repr((t, r, steps)).encode() + devices.tobytes()
        if self.ahead is not None and self.ahead[0] == key:
            return self.ahead[1]
        shifts = self.batches.draw_augmentation(t, r, steps, devices) if self.augment else None
        seeds = self.batches.draw_seeds(t, r, devices)
        draws = (self.batches.draw(t, r, steps, devices), shifts, seeds)
        self.ahead = (key, draws)
        return draws

    def _chunk(
        self,
        order: TrainingOrder,
        place: IntArray,
        draws: _Draws,
        first: int,
        device: torch.device,
    ) -> _Chunk:
        """The chunk of the devices at `place`, which come `first` in the block's draws.

        Compiled steps are for one number of devices: the last one stands in for those that lack
        and counts nothing.
        """
        lacking = self.chunk - len(place) if self.compiled else 0
        column = first + np.minimum(np.arange(len(place) + lacking), len(place) - 1)
        steps = int(order.local_steps[place].max())
        weight = np.pad(order.weight[place], (0, lacking))
        place = np.pad(place, (0, lacking), mode="edge")
        chosen, shifts, seeds = draws
        moves = None
        if shifts is not None:
            moves = torch.as_tensor(shifts[:steps, column], device=device)
        return _Chunk(
            edges=torch.as_tensor(order.edge_of_device[place], device=device),
            weight=torch.as_tensor(weight, device=device),
            chosen=torch.as_tensor(chosen[:steps, column], device=device),
            shifts=moves,
            counts=torch.as_tensor(order.local_steps[place], device=device),
            # One program for even and uneven chunks: compiling it takes longer than masking costs.
            uneven=self.compiled or int(order.local_steps[place].min()) < steps,
            seed=int(seeds[first]),
            corrections=(
                None
                if order.correction is None
                else torch.as_tensor(order.correction[place], device=device)
            ),
        )

    def _train_chunk(
        self, models: Tensor, chunk: _Chunk, given: StepInputs
    ) -> tuple[Tensor, Tensor]:
        """The states of a chunk's devices after all steps, and the sums of their losses."""
        counts = chunk.counts if chunk.uneven else None
        with own_randomness(models.device) as generator:
            generator.manual_seed(chunk.seed)
            return self.all_steps(models[chunk.edges], chunk.chosen, chunk.shifts, counts, given)

    def _take_steps(
        self,
        rows: Tensor,
        chosen: Tensor,
        shifts: Tensor | None,
        counts: Tensor | None,
        given: StepInputs,
    ) -> tuple[Tensor, Tensor]:
        """The same as `CompiledSteps`, without compilation."""
        optimiser = self.method.optimiser_for(given)
        state = ChunkState(self.model, optimiser, rows, given.corrections)
        losses = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        for number in range(len(chosen)):
            moves = None if shifts is None else shifts[number]
            moving = None if counts is None else counts > number
            losses += self.rule.take(state, optimiser, number + 1, chosen[number], moves, moving)
        return state.joined(), losses


def _edge_blocks(order: TrainingOrder, chunk: int) -> list[list[IntArray]]:
    """Chunks that each hold devices of one edge server only, of even size."""
    by_edge = np.lexsort((-order.local_steps, order.edge_of_device))
    cuts = np.flatnonzero(np.diff(order.edge_of_device[by_edge])) + 1
    blocks: list[list[IntArray]] = []
    held = BLOCK
    for members in np.split(by_edge, cuts) if len(by_edge) else []:
        for place in np.array_split(members, -(-len(members) // chunk)):
            if held + len(place) > BLOCK:
                blocks.append([])
                held = 0
            blocks[-1].append(place)
            held += len(place)
    return blocks


def _largest(joined: Tensor) -> Tensor:
    """The greatest absolute number in each row, in float64."""
    least, most = joined.aminmax(dim=1)
    return torch.maximum(-least, most).double()


def _add_up(total: Tensor, chunk: _Chunk, joined: Tensor) -> None:
    """Add every device's state, times its weight, to its edge server's row, in float64."""
    if total.device.type != "cpu":
        total.index_add_(0, chunk.edges, chunk.weight[:, None] * joined.double())
        return
    # Row by row: one pass through memory instead of three.
    for edge, weight, row in zip(chunk.edges.tolist(), chunk.weight.tolist(), joined, strict=True):
        total[edge].add_(row, alpha=weight)
