"""What a device remembers between rounds, by the labels of the orders it carried out.

An order says by which label the device is to remember what it had after its last update that
counted. So it makes no difference whether an acknowledgement was lost on the way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedrt.system.files import make_folder, write_arrays
from fedrt.system.inputs import read_arrays
from fedrt.system.torn import clear_torn

Arrays = Mapping[str, NDArray[Any]]

OWN = re.compile(r"[0-9]{6}-[0-9a-z-]{1,70}\.npz")
KEPT = 6
"""Labels whose memories are kept; the coordinator goes back by one global round at most."""


class DeviceMemory:
    """The memories of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder, parents=True)
        clear_torn(folder)
        self.folder = folder

    def load(self, label: str) -> Arrays | None:
        """What the device remembered under a label; None if it has forgotten."""
        path = self.folder / f"{label}.npz"
        return read_arrays(path) if path.is_file() else None

    def save(self, label: str, arrays: Arrays) -> None:
        """Remember something; forget what is older than the last few."""
        write_arrays(self.folder / f"{label}.npz", arrays)
        own = [path for path in self.folder.iterdir() if OWN.fullmatch(path.name)]
        own.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in own[KEPT:]:
            path.unlink(missing_ok=True)
