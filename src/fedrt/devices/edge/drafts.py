"""Updates on disk: written while they come in, and counted once they are whole and checked."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from fedrt.devices.wire.messages_pb2 import Upload
from fedrt.errors import FedrtError, InputError, reason
from fedrt.messages import Raw
from fedrt.system.files import UnwritableError

TAIL = struct.Struct("<Id")
"""What an update's file ends in: the length of its head, and the seconds that it took."""


@dataclass(frozen=True)
class ReceivedUpdate:
    """A device's update in a file: message, variate, head and tail."""

    upload: Upload
    path: Path
    upload_s: float
    at_s: float = 0.0
    """Seconds after the edge round began."""

    @property
    def length(self) -> int:
        """The bytes of message and variate."""
        return int(self.upload.message.length + self.upload.variate.length)

    @staticmethod
    def read(path: Path) -> ReceivedUpdate:
        """An update that was kept; its message stays where it is."""
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL.size, 0))
            tail = file.read()
            head_bytes, upload_s = TAIL.unpack(tail) if len(tail) == TAIL.size else (size, 0.0)
            start = size - TAIL.size - head_bytes
            if start >= 0:
                file.seek(start)
                upload = Upload.FromString(file.read(head_bytes))
                found = ReceivedUpdate(upload, path, upload_s)
                if found.length == start:
                    return found
        raise InputError(f"{path}: is no update, or a damaged one")

    def result(self) -> Any:
        """The update as the learning code takes it."""
        from fedrt.learning.remote.orders import KeptResult

        report, given = self.upload.report, self.upload
        return KeptResult(
            path=str(self.path),
            message_bytes=given.message.length,
            variate_bytes=given.variate.length,
            loss_sum=report.loss_sum,
            largest=report.largest,
            update_norm=report.update_norm,
            left_norm=report.left_norm,
            train_s=report.train_s,
        )


class UpdateDraft:
    """The file of an update that is coming in; deleted unless it is kept.

    A thread may still write when it is dropped: what it writes then is ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._handle: int | None = self._do(
            os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )

    def _do(self, work: Any, *given: Any) -> Any:
        try:
            return work(*given)
        except OSError as error:
            raise UnwritableError(f"{self.path}: cannot be written: {reason(error)}") from error

    def add(self, chunk: Raw) -> None:
        """Write what comes next."""
        left = memoryview(chunk)
        with self._lock:
            while left and self._handle is not None:
                left = left[self._do(os.write, self._handle, left) :]

    def seal(self, upload: Upload, upload_s: float) -> None:
        """End the file with what is known of the update."""
        head = upload.SerializeToString()
        self.add(head + TAIL.pack(len(head), upload_s))

    def sync(self) -> None:
        """Wait until all of it is on disk."""
        with self._lock:
            if self._handle is not None:
                self._do(os.fsync, self._handle)

    def keep(self, path: Path) -> None:
        """Give the file its name: from now on the update counts."""
        with self._lock:
            if self._handle is None:
                raise FedrtError(f"{self.path}: has been dropped")
            self._do(os.replace, self.path, path)
            self._close()

    def drop(self) -> None:
        """Delete the file unless it has been kept."""
        with self._lock:
            if self._handle is not None:
                self.path.unlink(missing_ok=True)
                self._close()

    def _close(self) -> None:
        assert self._handle is not None
        os.close(self._handle)
        self._handle = None
