"""Logs of the parties: lines for people, or JSON for machines. Neither has keys or data."""

from __future__ import annotations

import json
import logging
import sys
import time


class _Json(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self.party = party

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "party": self.party,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def start_logs(party: str, *, as_json: bool) -> None:
    """Log what this party does on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter(f"%(asctime)s {party}: %(message)s", "%H:%M:%S")
    handler.setFormatter(_Json(party) if as_json else plain)
    log = logging.getLogger("fedrt.devices")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
