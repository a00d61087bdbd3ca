"""Logs of the parties: lines for people, or JSON for machines. Neither has keys or data."""

from __future__ import annotations

import json
import logging
import sys
import time
from types import TracebackType

from fedrt.devices.security.rates import Rates
from fedrt.errors import one_line

Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
LOGGERS = ("fedrt.devices", "fedrt.learning", "asyncio", "grpc")
"""What a party logs, and what the libraries that serve it do: all of it may quote other parties."""
WARNINGS_PER_S, WARNINGS_AT_ONCE = 1.0, 1000
"""How often a line of the code may warn; what it says beyond that is left out."""


class _Bounded(logging.Filter):
    """Lets each warning through so often: whoever sends what is warned of fills no disk."""

    def __init__(self) -> None:
        super().__init__()
        self._rates = Rates(WARNINGS_PER_S, WARNINGS_AT_ONCE)

    def filter(self, record: logging.LogRecord) -> bool:
        few = record.levelno < logging.WARNING
        return few or self._rates.take((record.pathname, record.lineno))


class _Plain(logging.Formatter):
    """A line for each record, and an indented one for each of an exception's.

    Messages and exceptions quote what other parties send: neither can begin a line of its own.
    """

    def __init__(self, party: str) -> None:
        super().__init__(f"%(asctime)s {party}: %(message)s", "%H:%M:%S")
        self.party = party

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging has it
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Raised) -> str:  # noqa: N802 - as logging has it
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  | {' ' * _indent(line)}{one_line(line)}" for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Json(_Plain):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "party": self.party,
            "message": one_line(record.getMessage()),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def start_logs(party: str, *, as_json: bool) -> None:
    """Log what this party does on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Bounded())
    handler.setFormatter(_Json(party) if as_json else _Plain(party))
    for name in LOGGERS:
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
    logging.getLogger("fedrt.devices").setLevel(logging.INFO)
