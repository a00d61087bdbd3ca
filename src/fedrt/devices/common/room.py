"""Whether a party can write what it has to: one whose disk is full is silent until it can."""

from __future__ import annotations

import logging
from pathlib import Path

from fedrt.system.files import UnwritableError, check_room

log = logging.getLogger(__name__)


class Room:
    """What a party could not write, and whether it can again: it looks before it works."""

    def __init__(self) -> None:
        self.lacking: tuple[Path, int] | None = None
        """The folder that could not be written to, and the bytes that it must have room for."""

    def note(self, error: UnwritableError, folder: Path, need: int) -> None:
        """Note that a folder could not be written to; logged once."""
        if self.lacking is None:
            log.error("%s; silent until it can be written", error)
        self.lacking = folder, need

    def check(self) -> None:
        """Raise an error as long as the folder cannot be written to."""
        if self.lacking is not None:
            check_room(*self.lacking)
            log.warning("%s: can be written again", self.lacking[0])
            self.lacking = None

    @property
    def there(self) -> bool:
        """Whether the folder can be written to, as far as is known."""
        try:
            self.check()
        except UnwritableError:
            return False
        return True
