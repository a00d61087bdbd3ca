"""What a party has set up on its machine, in a file, so that its next start can undo it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedrt.errors import FedrtError
from fedrt.system.files import make_folder, write_json

log = logging.getLogger(__name__)

FILE = "enforced.json"

WRONG = (OSError, LookupError, TypeError, AttributeError, ValueError, FedrtError)
"""What comes of a file that was changed by hand, or of a machine that was."""

Clean = Callable[[Mapping[str, Any]], None]


class Leftovers:
    """The file of one party: for each actuator that changes the machine, what it has set up."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def read(self) -> dict[str, dict[str, Any]]:
        """What is set up; nothing where the file is missing or cannot be read."""
        try:
            found = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            log.warning("%s: cannot be read; what it says is not undone", self.path)
            return {}
        entries = found.items() if isinstance(found, dict) else ()
        return {name: what for name, what in entries if isinstance(what, dict)}

    def note(self, name: str, what: Mapping[str, Any]) -> None:
        """Say what an actuator is about to set up."""
        held = self.read()
        if held.get(name) != what:
            make_folder(self.path.parent, parents=True)
            write_json(self.path, {**held, name: dict(what)})

    def drop(self, name: str) -> None:
        """Forget what an actuator has undone."""
        held = self.read()
        if held.pop(name, None) is None:
            return
        if held:
            write_json(self.path, held)
        else:
            self.path.unlink(missing_ok=True)

    def undo(self, cleaners: Mapping[str, Clean]) -> None:
        """Undo what an earlier process of this party left when it was killed."""
        for name, what in self.read().items():
            if name not in cleaners:
                continue
            try:
                cleaners[name](what)
                log.info("%s: undone what an earlier process had set up", name)
            except WRONG as error:
                log.warning("%s: what an earlier process had set up stays: %s", name, error)
                continue
            self.drop(name)
