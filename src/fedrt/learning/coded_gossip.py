"""Gossip by coded differences to public copies, as edge servers would carry it out.

Every server has a public copy of its model, which its neighbours hold too. In each step it sends
them the coded difference of its model to that copy, and all add what they decode to the copy. Then
each server moves its model by the weighted differences between its neighbours' copies and its own.
What a codec loses stays in the difference and is sent later. Copies are float32, whatever models
are kept in, so that a message can carry a copy itself.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.control.mixing.damping import damped
from fedrt.learning import gossip
from fedrt.learning.codecs import make_format
from fedrt.learning.codecs.blocks import GRIDS
from fedrt.learning.codecs.formats import as_float32
from fedrt.learning.gossip import Links, links_of, mix, turns_of
from fedrt.messages import BLOCK, distortion

FloatArray = NDArray[np.float64]

NEAR = 8
"""Blocks of numbers of all models that a processor mixes at a time: what its caches hold."""

Change = Callable[[Tensor, Tensor], None]
"""Changes models, one per row, or the public copies in the rows of a second tensor, in place."""


class Mixed(NamedTuple):
    """The models and the public copies of their parameters after gossip, one per row."""

    models: Tensor
    public: Tensor


def mix_coded(
    models: Tensor, public: Tensor, weights: FloatArray, gossip_steps: int, codec: str
) -> Mixed:
    """Models and public copies after a number of gossip steps with the given weights (C x C).

    A copy has as many columns as a model has parameters. A step adds the decoded difference to the
    copy, in float32, and w_cj (copy of j - copy of c) to the model of c, one neighbour after the
    other by their numbers: differences, products and sums are float64, each rounded by itself, and
    the result is rounded to the models' type. w are the weights, `damped` where the codec needs it.
    The columns beyond, buffers, are sent as they are, in float32, and mix as without a codec.
    Every implementation of these steps gives the same bits.
    """
    size, servers = public.shape[1], len(models)
    links = links_of(damped(weights, distortion(codec)))
    mixed, held = torch.empty_like(models), torch.empty_like(public)
    mixed[:, size:] = mix(models[:, size:].float(), weights, gossip_steps)
    move = _move_by_torch(links, models.device) if models.is_cuda else _move_by_kernel(links)
    code = _code_by_kernel(codec) if _has_kernel(models, codec) else _code_by_torch(codec)
    # Blocks of a codec stay whole: the columns of a part are rounded as those of all would be.
    columns = BLOCK * (max(1, gossip.WIDE // (servers * BLOCK)) if models.is_cuda else NEAR)

    def mix_columns(start: int) -> None:
        part = slice(start, min(start + columns, size))
        own, copy = models[:, part].clone(), public[:, part].clone()
        for _ in range(gossip_steps):
            code(own, copy)
            move(own, copy)
        mixed[:, part], held[:, part] = own, copy

    starts, threads = range(0, size, columns), torch.get_num_threads()
    work = gossip_steps * len(links.weight) * size
    if models.is_cuda or threads == 1 or work < gossip.HEAVY:
        for start in starts:
            mix_columns(start)
        return Mixed(mixed, held)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(mix_columns, starts))
    return Mixed(mixed, held)


def _has_kernel(models: Tensor, codec: str) -> bool:
    return codec in GRIDS and models.dtype == torch.float32 and not models.is_cuda


def _code_by_kernel(codec: str) -> Change:
    from fedrt.learning.gossip_kernel import code_blocks

    levels, share, most = GRIDS[codec]
    rules = (levels, np.float32(share), most)
    return lambda models, public: code_blocks(models.numpy(), public.numpy(), *rules)


def _code_by_torch(codec: str) -> Change:
    """The messages of all servers with torch operations, for GPUs and for codecs without blocks."""
    form = make_format(codec)

    def code(models: Tensor, public: Tensor) -> None:
        public += form.decoded(as_float32(models - public))

    return code


def _move_by_kernel(links: Links) -> Change:
    # Here, since it loads numba: who mixes nothing does without.
    from fedrt.learning.gossip_kernel import coded_step

    return lambda models, public: coded_step(models.numpy(), public.numpy(), *links[1:])


def _move_by_torch(links: Links, device: torch.device) -> Change:
    turns = turns_of(links, device)

    def move(models: Tensor, public: Tensor) -> None:
        wide, copies = models.double(), public.double()
        for server, neighbour, weight in turns:
            apart = copies[neighbour] - copies[server]
            # Not in one call with the sum: it might leave out the rounding between them.
            wide.index_add_(0, server, apart.mul_(weight))
        models.copy_(wide)

    return move
