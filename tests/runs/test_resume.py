"""A run that was killed, damaged or starved goes on as if nothing had happened, to the bit."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import kill_campaign
import numpy as np
import pytest
from trained import differences, go_on, start, train, trained

from fedrt.cli import main
from fedrt.errors import FedrtError, InputError
from fedrt.files import TORN
from fedrt.policies.base import keep_all_links
from fedrt.policies.static_t import StaticT
from fedrt.runs.checkpoint import Checkpoints, Record
from fedrt.runs.directory import RunDirectory
from fedrt.runs.training import carry_on
from fedrt.turns import Distances


class KilledError(BaseException):
    """As sudden as it gets inside a process: nothing catches it."""


class Killer:
    """Counts the instants at which files of a run change, and kills just before one of them."""

    def __init__(self, monkeypatch):
        self.count, self.at = 0, None
        for name in ("replace", "unlink", "rmdir"):
            change = getattr(Path, name)
            monkeypatch.setattr(Path, name, partial(self._watched, change).__get__)
            # A plain function, so that it binds as a method.
            monkeypatch.setattr(Path, name, self._method(change))

    def _method(self, change):
        def method(path, *args, **kwargs):
            if change.__name__ != "unlink" or path.suffix == ".npz":
                self._instant(path)
            return change(path, *args, **kwargs)

        return method

    def _instant(self, path):
        self.count += 1
        if self.at is not None and self.count > self.at:
            self.at = None
            if path.suffix == TORN:  # what -9 would leave behind
                half = path.read_bytes()[: path.stat().st_size // 2]
                path.with_name(f".left{self.count}{TORN}").write_bytes(half)
            raise KilledError

    def _watched(self, *args):
        raise NotImplementedError


def instants(killer, run):
    """How many there are while a run is carried on; the run is then at its end."""
    killer.count = 0
    go_on(run)
    return killer.count


def kill(killer, run, at):
    """Carry on until instant `at`; whether it was killed before the end."""
    killer.count, killer.at = 0, at
    try:
        go_on(run)
    except KilledError:
        return True
    killer.at = None
    return False
