"""Callbacks: what is told of a run while it trains, and the loggers that listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.callbacks.base import Callback as Callback
    from fedrt.callbacks.base import RunInfo as RunInfo
    from fedrt.callbacks.loggers import LOGGERS as LOGGERS
    from fedrt.callbacks.loggers import make_loggers as make_loggers
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "base": "Callback RunInfo",
            "loggers": "LOGGERS make_loggers",
        },
    )
