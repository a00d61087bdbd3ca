"""Memory that training processes share, made after they have started.

What devices remember of their messages is as large as all their models: it is written where it is
used. The memory is a file without a name, which is gone when its last user ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedrt.learning.stacked.resources import SHARED, refuse_full


class StatesForm(NamedTuple):
    """The shape and type of shared states: what a process must know to see them."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class SharedStates:
    """A tensor in a nameless file, which is sent to other processes as an open file."""

    def __init__(self, like: Tensor, workers: int) -> None:
        refuse_full(like.nbytes, workers)
        self.form = StatesForm(tuple(like.shape), like.dtype)
        folder = str(SHARED) if SHARED.is_dir() else None
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open until `close`
        self.file.truncate(max(1, like.nbytes))
        self.tensor = _mapped(self.file.fileno(), self.form)
        self.tensor.copy_(like)

    def send(self, link: Connection, process: int) -> None:
        """Let a process at the end of a link see the tensor; it must call `receive_states`."""
        send_handle(link, self.file.fileno(), process)

    def close(self) -> None:
        """Close the file; whoever sees the tensor still does."""
        self.file.close()


def receive_states(link: Connection, form: StatesForm) -> Tensor:
    """The tensor that another process has sent."""
    number = recv_handle(link)
    try:
        return _mapped(number, form)
    finally:
        os.close(number)


def _mapped(number: int, form: StatesForm) -> Tensor:
    memory: Any = mmap.mmap(number, 0)
    count = 1
    for side in form.shape:
        count *= side
    return torch.frombuffer(memory, dtype=form.dtype, count=count).view(form.shape)
