"""The shared memory and open files that training processes need, checked in advance.

Models, partial sums and data lie in shared memory, which containers often have only 64 MB of: a
process that writes beyond it is killed without a word, so it is counted first.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

from fedrt.errors import FedrtError, reason

SHARED = Path("/dev/shm")
SPARE_FILES = 64
"""Files and pipes beside the shared tensors that a process may open."""
GOES_ON = "`resume` goes on"
FEWER = "give fewer `workers` or a smaller `chunk`"
SCARCE = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
NO_MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "not enough memory",
    "out of memory",
)


class _Counter(pickle.Pickler):
    """A pickler that writes nothing and counts the tensors."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: dict[int, int] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            storage = value.untyped_storage()
            # What is shared already is not copied.
            if not value.is_shared():  # type: ignore[no-untyped-call]
                self.found[storage.data_ptr()] = storage.nbytes()
            return (int, ())
        return NotImplemented


def tensors_in(value: Any) -> dict[int, int]:
    """The bytes of shared memory that sending a value to another process takes."""
    counter = _Counter()
    counter.dump(value)
    return counter.found


def refuse_too_little(sent: Any, own: Iterable[int], workers: int) -> None:
    """Raise an error if there is too little shared memory, or too few files can be open."""
    found = tensors_in(sent)
    refuse_full(sum(found.values()) + sum(own), workers)
    _raise_file_limit(workers, len(found) + 3 * workers + SPARE_FILES)


def refuse_full(needed: int, workers: int) -> None:
    """Raise an error if there is too little shared memory."""
    free = _free_bytes()
    if free is not None and needed > free:
        raise FedrtError(
            f"`workers` {workers}: needs {_mb(needed)} of shared memory, {SHARED} has {_mb(free)}:"
            f" give `workers` 1, or more of it (docker run --shm-size={_mb(2 * needed, unit='m')})"
        )


def _free_bytes() -> int | None:
    try:
        about = os.statvfs(SHARED)
    except OSError:
        return None
    return about.f_bavail * about.f_frsize


def _mb(size: int, unit: str = " MB") -> str:
    return f"{-(-size // 10**6)}{unit}"


def _raise_file_limit(workers: int, more: int) -> None:
    """Raise the number of files that this process may open; an error if it cannot be."""
    import resource

    try:
        opened = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = opened + more
    if soft != resource.RLIM_INFINITY and needed > soft:
        if hard != resource.RLIM_INFINITY and needed > hard:
            raise FedrtError(
                f"`workers` {workers}: needs {needed} open files, {hard} are allowed: give"
                f" `workers` 1, or raise the limit (ulimit -n {needed})"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def scarce(error: BaseException) -> FedrtError | None:
    """Advice for an error about memory or files that ran out; None for any other error."""
    text = reason(error)
    if isinstance(error, OSError) and error.errno in SCARCE:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return FedrtError(f"a training process: {text}: raise the limit (ulimit -n), {FEWER}")
        return FedrtError(f"a training process: {text}: {FEWER}; {GOES_ON}")
    if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
        return FedrtError(f"a training process ran out of memory: {FEWER}; {GOES_ON}")
    return None


def why_it_died(exit_code: int | None) -> FedrtError:
    """The message about a training process that has ended unexpectedly."""
    if exit_code == -signal.SIGKILL:
        return FedrtError(
            f"a training process was killed, perhaps for want of memory: {FEWER}; {GOES_ON}"
        )
    if exit_code == -signal.SIGBUS:
        return FedrtError(
            f"a training process ran out of shared memory: {SHARED} is full; free some or give"
            f" `workers` 1; {GOES_ON}"
        )
    return FedrtError(f"a training process has died; {GOES_ON}")
