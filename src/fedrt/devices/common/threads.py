"""Work in a thread that a cancelled call waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *given: Any) -> T:
    """The result of a function, from a thread; if cancelled, the function ends first.

    A thread cannot be cancelled. Without this, whoever comes next would work on what the thread
    still changes.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:  # a second time: it still has to end
                continue
        if not task.cancelled():
            task.exception()
        raise
