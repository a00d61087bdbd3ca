"""Runs that are stopped and whose files are edited, for tests of how they go on."""

from __future__ import annotations

import json

PLAIN = ("learning.model='small-cnn'", "learning.model_bits=194880")


class StopError(BaseException):
    """Ends a run at once, as a kill would."""


def stop(done):
    raise StopError


def edit_json(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def set_line(path, key, value):
    """Change one setting of a config.toml."""
    lines = path.read_text().splitlines()
    (place,) = [i for i, line in enumerate(lines) if line.startswith(f"{key} = ")]
    assert lines[place] != f"{key} = {value}"
    lines[place] = f"{key} = {value}"
    path.write_text("\n".join(lines))


MINE = """
from dataclasses import replace
from fedrt.policies.static_t import StaticT
from helping import STEPS
class Mine:
    name, energy_horizon = "mine", "paper"
    def plan(self, seen, books):
        plan = StaticT().plan(seen, books)
        if plan.gossip is None:
            return plan
        return replace(plan, gossip=replace(plan.gossip, steps=STEPS))
"""
