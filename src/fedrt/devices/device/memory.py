"""What a device remembers between rounds, by the labels of the orders it carried out.

An order says by which label the device is to remember what it had after its last update that
counted. So it makes no difference whether an acknowledgement was lost on the way.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedrt.errors import InputError
from fedrt.system.files import make_folder, write_arrays
from fedrt.system.inputs import read_arrays
from fedrt.system.torn import clear_torn

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

OWN = re.compile(r"([0-9]{6})-[0-9a-z-]{1,70}\.npz")


class DeviceMemory:
    """The memories of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder, parents=True)
        clear_torn(folder)
        self.folder = folder

    def load(self, label: str) -> Arrays | None:
        """What the device remembered under a label; None if it has forgotten or cannot read it."""
        path = self.folder / f"{label}.npz"
        try:
            return read_arrays(path) if path.is_file() else None
        except InputError as error:
            log.warning("%s", error)
            return None

    def save(self, label: str, arrays: Arrays) -> None:
        """Remember something."""
        write_arrays(self.folder / f"{label}.npz", arrays)

    def forget_for(self, t: int, remember: str) -> None:
        """Forget what no order will ask for, once there is one in global round t.

        A coordinator that is started again begins its last global round anew, any number of times.
        So only an order that goes on from an earlier global round says what has become useless:
        everything well before that.
        """
        found = OWN.fullmatch(f"{remember}.npz")
        if found is None or int(found[1]) >= t:
            return
        for path in self.folder.iterdir():
            own = OWN.fullmatch(path.name)
            if own is not None and int(own[1]) < int(found[1]) - 1:
                path.unlink(missing_ok=True)
