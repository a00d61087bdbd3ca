"""Logging for TensorBoard, an optional library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedrt.errors import FedrtError, reason
from fedrt.system.extras import MissingLibraryError


class Board:
    """Writes the metrics of each global round; from round `first` on, over earlier logs."""

    def __init__(self, folder: Path, first: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingLibraryError("`tensorboard`", "tensorboard") from None
        self.folder = folder
        with _told(folder):
            self.writer = SummaryWriter(str(folder), purge_step=first)

    def add(self, t: int, values: Mapping[str, float]) -> None:
        """Log the metrics of global round t."""
        with _told(self.folder):
            for name, value in values.items():
                if not math.isnan(value):
                    self.writer.add_scalar(name, value, t)
            self.writer.flush()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn a failure to write, such as a full disk, into a one-line error."""
    try:
        yield
    except OSError as error:
        raise FedrtError(f"{folder}: cannot be written: {reason(error)}") from None
