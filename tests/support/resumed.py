"""Runs that are stopped after so many rounds and go on, for tests of what they go on from."""

from __future__ import annotations

import pytest

from fedrt.studies.training import carry_on
from support.trained import start, trained


class KilledError(BaseException):
    """As sudden as it gets inside a process: nothing catches it."""


def stopped(path, after, *settings, policy="fedrt", **options):
    """A run that was killed after so many rounds, as -9 would."""
    start(path, trained(*settings), policy, **options)

    def step(done):
        if done.last.t == after - 1:
            raise KilledError

    with pytest.raises(KilledError):
        carry_on(path, step)
    return path


def resumed(run):
    """Carry a run on; the notes it gave."""
    notes = []
    carry_on(run, note=notes.append)
    return notes


def checkpoints_of(run):
    return sorted((run / "checkpoints").glob("*.npz"))
