"""Gossip by coded differences to copies, as edge servers would carry it out.

For every neighbour that it has ever gossiped with, a server keeps a copy of what that neighbour
knows of its model; the neighbour keeps the same. In each step it sends every linked neighbour the
coded difference of its model to that copy, and both add what it decodes to. Then each server moves
its model by the weighted differences between what it knows of its neighbours and what they know of
it. What a codec loses stays in the difference and is sent later, and so does what a neighbour
missed while it was not linked. KnownModels are float32, whatever models are kept in.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.control.mixing.damping import damped
from fedrt.learning import gossip
from fedrt.learning.codecs import make_format
from fedrt.learning.codecs.blocks import GRIDS
from fedrt.learning.codecs.formats import as_float32
from fedrt.learning.gossip import Links, links_of, mix
from fedrt.messages import BLOCK, distortion

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CODED = 8
"""What a coded step takes, in products of one without a codec."""
NEAR = 8
"""Blocks of numbers of all models that a processor mixes at a time: what its caches hold."""

Code = Callable[[Tensor, Tensor], None]
"""Adds to copies, one per row, what the messages about the models decode to, in place."""
Move = Callable[[Tensor, Tensor], None]
"""Moves models, one per row, as the copies say, in place."""


class KnownModels(NamedTuple):
    """What servers know of each other's parameters, from gossip with each other."""

    pairs: IntArray
    """One row for each copy: whose model it is of, and the server that it was sent to."""
    held: Tensor
    """The copies, one per row, in float32."""

    @staticmethod
    def none(first: Tensor) -> KnownModels:
        """The copies before any gossip, on the device of the first model."""
        return KnownModels(np.zeros((0, 2), dtype=np.int64), first.float()[None][:0])

    def with_pairs(self, pairs: IntArray, first: Tensor) -> tuple[KnownModels, IntArray]:
        """The copies with those of the given pairs, and the rows of these.

        A pair that has not gossiped yet knows the first model.
        """
        place = {pair: row for row, pair in enumerate(map(tuple, self.pairs.tolist()))}
        wanted = list(map(tuple, pairs.tolist()))
        new = [pair for pair in wanted if pair not in place]
        place |= {pair: len(self.pairs) + row for row, pair in enumerate(new)}
        rows = np.array([place[pair] for pair in wanted], dtype=np.int64)
        if not new:
            return self, rows
        more = first.float().repeat(len(new), 1)
        whole = np.concatenate([self.pairs, np.array(new, dtype=np.int64)])
        return KnownModels(whole, torch.cat([self.held, more])), rows


class Mixed(NamedTuple):
    """The models after gossip, one per row, and the copies."""

    models: Tensor
    copies: KnownModels


class CodedLinks(NamedTuple):
    """The copies of a gossip, one for each server and each of its neighbours, in their order."""

    server: IntArray
    """Whose model each copy is of."""
    reverse: IntArray
    """The place of the copy in the other direction."""
    first: IntArray
    """Where the copies of each server begin; one more for the end."""
    weight: FloatArray

    @staticmethod
    def of(links: Links) -> tuple[CodedLinks, IntArray]:
        """The links of a gossip, and the pair of servers of each copy."""
        server = np.repeat(np.arange(len(links.own)), np.diff(links.first))
        pairs = np.stack([server, links.neighbour], axis=1).astype(np.int64)
        place = {(c, j): row for row, (c, j) in enumerate(pairs.tolist())}
        reverse = np.array([place[j, c] for c, j in pairs.tolist()], dtype=np.int64)
        return CodedLinks(server, reverse, links.first, links.weight), pairs


def mix_coded(
    models: Tensor,
    copies: KnownModels,
    first: Tensor,
    weights: FloatArray,
    gossip_steps: int,
    codec: str,
) -> Mixed:
    """Models and copies after a number of gossip steps with the given weights (C x C).

    `first` is the model that all servers started from; it and copies have as many columns as a
    model has parameters. A step adds the decoded difference to the copy, in float32, and w_cj (copy
    from j to c - copy from c to j) to the model of c, one neighbour after the other by their
    numbers: differences, products and sums are float64, each rounded by itself, and the result is
    rounded to the models' type. w are the weights, `damped` where the codec needs it. The columns
    beyond, buffers, are sent as they are, in float32, and mix as without a codec. Every
    implementation of these steps gives the same bits.
    """
    size = len(first)
    links, pairs = CodedLinks.of(links_of(damped(weights, distortion(codec))))
    copies, rows = copies.with_pairs(pairs, first)
    rows_at = torch.from_numpy(rows).to(models.device) if models.is_cuda else rows
    mixed, held = torch.empty_like(models), copies.held.clone()
    mixed[:, size:] = mix(models[:, size:].float(), weights, gossip_steps)
    if not len(rows):
        mixed[:, :size] = models[:, :size]
        return Mixed(mixed, copies)
    code, move = _by_torch(links, models.device, codec)
    if not models.is_cuda:
        move = _move_by_kernel(links)
        code = _code_by_kernel(links, codec) if _has_kernel(models, codec) else code
    # Blocks of a codec stay whole: the columns of a part are rounded as those of all would be.
    rows_held = max(1, len(rows) + len(models))
    columns = BLOCK * (max(1, gossip.WIDE // (rows_held * BLOCK)) if models.is_cuda else NEAR)

    def mix_columns(start: int) -> None:
        part = slice(start, min(start + columns, size))
        own, copy = take(models, slice(None), part), take(copies.held, rows_at, part)
        for _ in range(gossip_steps):
            code(own, copy)
            move(own, copy)
        put(mixed, slice(None), part, own)
        put(held, rows_at, part, copy)

    starts, threads = range(0, size, columns), torch.get_num_threads()
    work = CODED * gossip_steps * len(links.weight) * size
    if models.is_cuda or threads == 1 or work < gossip.HEAVY:
        for start in starts:
            mix_columns(start)
        return Mixed(mixed, KnownModels(copies.pairs, held))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(mix_columns, starts))
    return Mixed(mixed, KnownModels(copies.pairs, held))


def take(rows: Tensor, which: Any, part: slice) -> Tensor:
    """A copy of some columns of some rows.

    On a processor by numpy: torch's threads would wait for each other over so little.
    """
    if rows.is_cuda:
        return rows[which, part].clone()
    return torch.from_numpy(rows.numpy()[which, part].copy())


def put(rows: Tensor, which: Any, part: slice, new: Tensor) -> None:
    """Replace some columns of some rows."""
    if rows.is_cuda:
        rows[which, part] = new
    else:
        rows.numpy()[which, part] = new.numpy()


def _has_kernel(models: Tensor, codec: str) -> bool:
    return codec in GRIDS and models.dtype == torch.float32 and not models.is_cuda


def _code_by_kernel(links: CodedLinks, codec: str) -> Code:
    # Here, since it loads numba: who mixes nothing does without.
    from fedrt.learning.gossip_kernel import code_blocks

    levels, share, most = GRIDS[codec]
    rules = (links.server, levels, np.float32(share), most)
    return lambda models, copies: code_blocks(models.numpy(), copies.numpy(), *rules)


def _move_by_kernel(links: CodedLinks) -> Move:
    from fedrt.learning.gossip_kernel import coded_step

    return lambda models, copies: coded_step(models.numpy(), copies.numpy(), *links[1:])


def _by_torch(links: CodedLinks, device: torch.device, codec: str) -> tuple[Code, Move]:
    """Both with torch operations, for GPUs: the first neighbours of all servers, and so on."""
    number = np.arange(len(links.server)) - links.first[links.server]
    order = np.argsort(number, kind="stable")
    end = np.cumsum(np.bincount(number)).tolist()
    # Put there once: every transfer waits for all that the device has begun.
    server = torch.from_numpy(links.server).to(device)
    places = np.stack([links.server[order], order, links.reverse[order]])
    place, weight = torch.from_numpy(places), torch.from_numpy(links.weight[order, None])
    place, weight = place.to(device), weight.to(device)
    turns = [
        (place[:, start:stop], weight[start:stop])
        for start, stop in zip([0, *end], end, strict=False)
    ]
    form = make_format(codec)

    def code(models: Tensor, copies: Tensor) -> None:
        copies += form.decoded(as_float32(models[server] - copies))

    def move(models: Tensor, copies: Tensor) -> None:
        wide = models.double()
        for (here, own, theirs), each in turns:
            apart = copies[theirs].double() - copies[own].double()
            # Not in one call with the sum: it might leave out the rounding between them.
            wide.index_add_(0, here, apart.mul_(each))
        models.copy_(wide)

    return code, move
