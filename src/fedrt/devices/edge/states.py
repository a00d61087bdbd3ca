"""What an edge server keeps on disk: its states by label, and updates it has acknowledged.

Every order of the coordinator names the state to start from and the one to end in. A state that is
there has been reached: the same order again gets the same report. So any party can be killed at any
moment, and the order simply be given again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from fedrt.devices.edge.drafts import ReceivedUpdate, UpdateDraft
from fedrt.devices.wire.party import is_label
from fedrt.errors import FedrtError, InputError
from fedrt.system.files import make_folder, write_alone, write_arrays
from fedrt.system.inputs import read_arrays, read_bytes
from fedrt.system.torn import TORN, clear_torn

log = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]

STATE = re.compile(r"[0-9]{6}-")
PLAIN = "none"
"""The codec of a gossip in which servers send their models as they are."""
START = "start"
"""The state before the first round, which is not on disk: every server makes it anew."""
OWN = re.compile(
    r"([0-9]{6})-[0-9a-z-]{1,70}\.(npz|report|order|[0-9]{1,9}\.update|[0-9]{1,4}-[0-9]{1,9}\.step)"
)
KEPT = (".order", ".update", ".npz", ".report")
"""What is left of past rounds where updates are kept."""
MOST = 2**34
"""Bytes of a file that is read."""


class OtherRunError(FedrtError):
    """The server has not been told of this run, or is at another one."""


class LostStateError(FedrtError):
    """The server does not have a state, or cannot read it."""


def is_state(label: str) -> bool:
    """Whether a text may name a state."""
    return label == START or (is_label(label) and STATE.match(label) is not None)


def label_of(t: int, what: str, session: str) -> str:
    """The name of the state that an order ends in."""
    return f"{t:06}-{what}-{session}"


def global_round_of(label: str) -> int:
    """The global round of a state; 0 before the first."""
    return 0 if label == START else int(label.partition("-")[0])


class States:
    """The states of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder, parents=True)
        clear_torn(folder)
        self.folder, self._drafts = folder, 0

    def has(self, label: str) -> bool:
        """Whether the state has been reached, with the report on it."""
        return label == START or self._path(label, "report").is_file()

    def save(self, label: str, arrays: Arrays, report: bytes) -> None:
        """Save a state and the report on how it was reached; the report last."""
        write_arrays(self._path(label, "npz"), arrays)
        write_alone(self._path(label, "report"), report)

    def load(self, label: str) -> Arrays:
        """A saved state; a `LostStateError` if it is not there or damaged."""
        try:
            return read_arrays(self._path(label, "npz"))
        except InputError as error:
            raise LostStateError(str(error)) from None

    def report(self, label: str) -> bytes:
        """The report on how a state was reached."""
        return read_bytes(self._path(label, "report"), MOST)

    def save_order(self, label: str, order: bytes) -> None:
        """Keep the order that leads to a state, for whoever wants to check the average."""
        write_alone(self._path(label, "order"), order)

    def draft(self, label: str, number: int) -> UpdateDraft:
        """A file for a device's update that is coming in, perhaps not the only one."""
        self._drafts += 1
        return UpdateDraft(self.folder / f".{label}.{number}-{self._drafts}.update{TORN}")

    def update_path(self, label: str, number: int) -> Path:
        """Where a device's update is kept, before it is acknowledged."""
        return self._path(label, f"{number}.update")

    def updates(self, label: str) -> dict[int, ReceivedUpdate]:
        """The updates that were acknowledged on the way to a state, by device; whole ones."""
        found = {}
        for path in self.folder.glob(f"{label}.*.update"):
            try:
                found[int(path.name.split(".")[-2])] = ReceivedUpdate.read(path)
            except (InputError, DecodeError) as error:
                log.warning("%s: its device is asked for it again", error)
                path.unlink(missing_ok=True)
        return found

    def save_step(self, label: str, step: int, neighbour: int, message: bytes) -> None:
        """Keep what a neighbour gets in a gossip step.

        A process that is killed loses none. After a power cut the gossip is given up, and all
        servers go on from where it began.
        """
        write_alone(self._path(label, f"{step}-{neighbour}.step"), message, durable=False)

    def step(self, label: str, step: int, neighbour: int) -> bytes | None:
        """What a neighbour gets in a gossip step; None if it has not been made yet."""
        path = self._path(label, f"{step}-{neighbour}.step")
        return read_bytes(path, MOST) if path.is_file() else None

    def forget_before(self, t: int, keep_updates: bool = False) -> None:
        """Delete everything about earlier global rounds."""
        for path in self.folder.iterdir():
            found = OWN.fullmatch(path.name)
            if found is None or int(found[1]) >= t:
                continue
            if not (keep_updates and path.suffix in KEPT):
                path.unlink(missing_ok=True)

    def _path(self, label: str, end: str) -> Path:
        return self.folder / f"{label}.{end}"
