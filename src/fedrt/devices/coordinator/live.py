"""`devices.json` of a run folder: the run's name, who is there, and what has been learned."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrt.devices.coordinator.fleet import RealFleet
from fedrt.devices.coordinator.learned import Learned
from fedrt.devices.wire.party import is_label
from fedrt.errors import InputError
from fedrt.records.columns.failures import planned_time_s
from fedrt.runs.rounds import GlobalRound, PastEdgeRound
from fedrt.system.files import write_json
from fedrt.system.inputs import parse_json, read_text

LIVE = "devices.json"


class LiveFile:
    """Written after every global round, and whenever a device or an edge server comes or goes."""

    def __init__(
        self,
        folder: Path,
        fleet: RealFleet,
        learned: Learned,
        past: Sequence[Sequence[PastEdgeRound]],
    ) -> None:
        self.path, self.fleet, self.learned = folder / LIVE, fleet, learned
        self.rounds = len(past)
        self.left_out: list[int] = []
        """The devices that are left out because their updates were refused round after round."""
        self.late = late_devices(past[-1]) if past else []
        self.refused = refused_devices(past[-1]) if past else []

    def add(self, done: GlobalRound) -> None:
        """Write what there is after a global round."""
        self.rounds = done.last.t + 1
        self.fleet.counts["global_round"] = float(self.rounds)
        self.fleet.counts["round_seconds"] = done.time_s
        self.fleet.counts["predicted_round_seconds"] = planned_time_s(done)
        self.late = late_devices(done.edge_rounds)
        self.refused = refused_devices(done.edge_rounds)
        self.left_out = np.flatnonzero(done.state.suspended.is_left_out(self.rounds, 0)).tolist()
        self.write()

    def write(self) -> None:
        """Write what there is now."""
        edge_rounds = self.fleet.settings.scenario.rounds.edge_rounds
        found: dict[str, Any] = {
            "run": self.fleet.run,
            "connected": sorted(self.fleet.seated),
            "late": self.late,
            "refused": self.refused,
            "left_out": self.left_out,
            "answering": self.fleet.answered.tolist(),
            "learned": self.learned.table(self.rounds * edge_rounds),
        }
        write_json(self.path, found)


def late_devices(turns: Sequence[PastEdgeRound]) -> list[int]:
    """The devices whose update was missing at a deadline of a global round."""
    return sorted({int(n) for turn in turns for n in turn.outcome.device[turn.outcome.late]})


def refused_devices(turns: Sequence[PastEdgeRound]) -> list[int]:
    """The devices of which an update was refused in a global round."""
    return sorted({int(n) for turn in turns for n in turn.outcome.device[turn.outcome.is_refused]})


def run_name(path: Path) -> str:
    """The name of the run among edge servers, drawn once and kept in its folder."""
    file = path / LIVE
    if file.is_file():
        try:
            name = parse_json(read_text(file)).get("run")
        except (AttributeError, ValueError):
            name = None
        if not isinstance(name, str) or not is_label(name):
            rule = "remove it, and edge servers get their models back under a new name"
            raise InputError(f"{file}: does not name a run: {rule}")
        return name
    name = secrets.token_hex(8)
    write_json(file, {"run": name})
    return name
