"""What is saved of a run: its tables, summary and folder, and what it resumes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.records.checkpoint import Checkpoints as Checkpoints
    from fedrt.records.directory import RunDirectory as RunDirectory
    from fedrt.records.directory import SavedRun as SavedRun
    from fedrt.records.directory import read_run as read_run
    from fedrt.records.history import History as History
    from fedrt.records.identity import Identity as Identity
    from fedrt.records.identity import read_identity as read_identity
    from fedrt.records.options import RunOptions as RunOptions
    from fedrt.records.options import read_options as read_options
    from fedrt.records.summary import Account as Account
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "checkpoint": "Checkpoints",
            "directory": "RunDirectory SavedRun read_run",
            "history": "History",
            "identity": "Identity read_identity",
            "options": "RunOptions read_options",
            "summary": "Account",
        },
    )
