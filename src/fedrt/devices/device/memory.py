"""What a device remembers between rounds, by the labels of the orders it carried out.

An order says by which label the device is to remember what it had after its last update that
counted. So it makes no difference whether an acknowledgement was lost on the way.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedrt.devices.wire.party import is_label
from fedrt.errors import InputError
from fedrt.system.files import make_folder, write_arrays
from fedrt.system.inputs import read_arrays
from fedrt.system.torn import TORN, clear_torn

Arrays = Mapping[str, NDArray[Any]]

OWN = re.compile(r"([0-9]{6})-[0-9a-z-]{1,70}\.npz")
RUNS = 8
"""The runs of which something is remembered: the newest, by when they last had an order."""
log = logging.getLogger(__name__)


class DeviceMemory:
    """The memories of one run in a folder, the `most` that were asked for or saved last."""

    def __init__(self, folder: Path, most: int) -> None:
        make_folder(folder, parents=True)
        clear_torn(folder)
        self.folder, self.most = folder, most

    def load(self, label: str) -> Arrays | None:
        """What the device remembered under a label; None if it has forgotten or cannot read it."""
        path = self.folder / f"{label}.npz"
        try:
            if not path.is_file():
                return None
            os.utime(path)
            return read_arrays(path)
        except InputError as error:
            log.warning("%s", error)
            return None

    def save(self, label: str, arrays: Arrays) -> None:
        """Remember something."""
        write_arrays(self.folder / f"{label}.npz", arrays)
        for path in newest_first(self.folder.glob("*.npz"))[self.most :]:
            path.unlink(missing_ok=True)

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


def forget_runs(state: Path, run: str) -> None:
    """Remove the folders of all runs but this one and the newest others, `RUNS` in all.

    Folders that hold anything else than memories stay.
    """
    if not state.is_dir():
        return
    folders = [path for path in state.iterdir() if path.name != run and _is_of_a_run(path)]
    for path in newest_first(folders)[RUNS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
        log.info("has removed what it remembered of run %s", path.name)


def _is_of_a_run(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir() or not is_label(path.name):
        return False
    names = [each.name for each in path.iterdir()]
    return all(name.endswith((".npz", TORN)) for name in names)


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Files or folders by when they were last changed."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]
