"""Gossip between edge servers, step by step, as real servers would carry it out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEAR = 2048
"""Columns of all models that a processor mixes at a time: what its caches hold."""
HEAVY = 10**9
"""Products that are worth several threads."""
WIDE = 2**25
"""Numbers of all models that a GPU has in double precision at a time."""


class Links(NamedTuple):
    """The neighbours and weights of every edge server in a gossip step."""

    own: FloatArray
    """The weight of each server's own model."""
    first: IntArray
    """Where the links of each server begin in what follows; one more for the end."""
    neighbour: IntArray
    """The servers at the other ends, rising for each server."""
    weight: FloatArray
    """The weights of their models."""


def links_of(weights: FloatArray) -> Links:
    """The neighbours and weights in a matrix of mixing weights (C x C)."""
    between = weights.copy()
    np.fill_diagonal(between, 0.0)
    servers, neighbour = np.nonzero(between)
    first = np.searchsorted(servers, np.arange(len(weights) + 1))
    return Links(weights.diagonal().copy(), first, neighbour, between[servers, neighbour])


def mix(models: Tensor, weights: FloatArray, gossip_steps: int) -> Tensor:
    """The models, one per row, after a number of gossip steps with the given weights (C x C).

    In each step every server sends its model, in the type that models are kept in, to its
    neighbours. Its new model is w_cc times its own plus, one after the other by their numbers, w_cj
    times a neighbour's. Products and sums are float64, each rounded by itself, and the result is
    rounded to the models' type. Nothing depends on how a library adds up: every implementation of
    these steps gives the same bits.
    """
    links, mixed = links_of(weights), torch.empty_like(models)
    columns = max(1, WIDE // len(models)) if models.is_cuda else NEAR
    mix_block = mix_by_torch if models.is_cuda else _mix_by_kernel

    def mix_columns(start: int) -> None:
        held = models[:, start : start + columns].contiguous()
        mixed[:, start : start + columns] = mix_block(held, links, gossip_steps)

    starts, threads = range(0, models.shape[1], columns), torch.get_num_threads()
    work = gossip_steps * len(links.weight) * models.shape[1]
    if models.is_cuda or threads == 1 or work < HEAVY:
        for start in starts:
            mix_columns(start)
        return mixed
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(mix_columns, starts))
    return mixed


def _mix_by_kernel(models: Tensor, links: Links, gossip_steps: int) -> Tensor:
    # Here, since it loads numba: who mixes nothing does without.
    from fedrt.learning.gossip_kernel import gossip_step

    held, after = models.numpy(), np.empty_like(models.numpy())
    for number in range(gossip_steps):
        gossip_step(held, *links, after)
        # The first time `held` may be the caller's own: it is not written to.
        held, after = after, np.empty_like(after) if number == 0 else held
    return torch.from_numpy(held)


class Turn(NamedTuple):
    """One neighbour of every server that has so many: where its weighted model is added."""

    server: Tensor
    neighbour: Tensor
    weight: Tensor
    """A column."""


def turns_of(links: Links, device: torch.device) -> list[Turn]:
    """The first neighbours of all servers, then the second ones, and so on, on a device.

    A few operations for all servers at once, and yet each adds up its neighbours in their order.
    """
    server = np.repeat(np.arange(len(links.own)), np.diff(links.first))
    number = np.arange(len(server)) - links.first[server]
    order = np.argsort(number, kind="stable")
    stop = np.cumsum(np.bincount(number)).tolist()
    # Put there at once: every transfer waits for all that the device has begun.
    ends = torch.from_numpy(np.stack([server[order], links.neighbour[order]])).to(device)
    weight = torch.from_numpy(links.weight[order, None]).to(device)
    return [
        Turn(ends[0, first:last], ends[1, first:last], weight[first:last])
        for first, last in zip([0, *stop], stop, strict=False)
    ]


def mix_by_torch(models: Tensor, links: Links, gossip_steps: int) -> Tensor:
    """The models after gossip, computed with torch operations, for GPUs."""
    turns, own = turns_of(links, models.device), torch.from_numpy(links.own[:, None])
    own = own.to(models.device)
    for _ in range(gossip_steps):
        wide = models.double()
        total = wide * own
        for server, neighbour, weight in turns:
            # Not in one call: it might leave out the rounding between product and sum.
            total.index_add_(0, server, wide[neighbour].mul_(weight))
        models = total.to(models.dtype)
    return models
