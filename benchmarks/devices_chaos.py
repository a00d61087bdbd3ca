"""Kills and cut connections while a run on real devices goes on, and whether all adds up.

    python benchmarks/devices_chaos.py [--kills 100] [--cuts 30] [--rounds 40] [--save FILE]

All parties are processes of this machine. Devices, edge servers and the coordinator are killed with
SIGKILL at random moments and started again with the same command; connections of devices are cut in
the middle of uploads. Afterwards every average is computed again from the updates on the edge
servers' disks, which is what was acknowledged, by numpy and by the learning code to the bit; so is
every gossip. An update must not be in two averages of the run that was kept.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from devices_fleet import CuttingProxy, Fleet, small, tell

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.replayed import check_run

PAUSE_S = 1.0
"""The longest that a killed party stays away."""
EARLY = 0.8
"""The part of the rounds in which everything is to have happened."""
PROBABLE = {"device": 6, "edge": 3, "coordinator": 2}


class Campaign:
    """One run with its kills and cuts."""

    def __init__(self, fleet: Fleet, args: argparse.Namespace) -> None:
        self.fleet, self.args = fleet, args
        self.chance = random.Random(args.seed)
        self.killed: Counter[str] = Counter()
        self.proxies = [CuttingProxy(port, random.Random(port)) for port in fleet.ports]
        fleet.doors = [proxy.door for proxy in self.proxies]
        self.end = time.monotonic() + args.limit

    def start(self, name: str) -> None:
        """Start a party with the settings of the campaign."""
        more = ["--keep-updates"] if name.startswith("edge") else []
        if name == "coordinator":
            more = ["--policy", "ce-fedavg", "--wait", "120", "--least-deadline"]
            more.append(str(self.args.deadline))
        self.fleet.start(name, *more)

    def rounds_done(self) -> int:
        """The number of global rounds that have ended."""
        log = self.fleet.folder / "coordinator.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        found = [line.split()[2] for line in text.splitlines() if line.startswith("global round ")]
        return max((int(each.rstrip(":")) for each in found), default=0)

    @property
    def cuts(self) -> int:
        """How many connections have been cut."""
        return sum(proxy.cuts for proxy in self.proxies)

    def run(self) -> None:
        """Kill and cut in step with the rounds, until the run has ended."""
        for name in (*self.fleet.names, "coordinator"):
            self.start(name)
        total, rounds = self.args.kills, self.args.rounds
        while (ended := self.fleet.processes["coordinator"].poll()) is None or ended:
            if time.monotonic() > self.end:
                raise SystemExit(f"not through after {self.args.limit} s: {self.state()}")
            if ended:
                raise SystemExit(f"the coordinator ended with {ended}: {self.state()}")
            self._revive()
            done = self.rounds_done()
            part = min(1.0, (done + 1) / (EARLY * rounds))
            wanted = int(total * part) if done else 0
            if self.killed.total() < wanted:
                self._kill()
            aim = int(self.args.cuts * part)
            armed = sum(proxy.armed for proxy in self.proxies)
            if self.cuts + armed < aim:
                self.chance.choice(self.proxies).armed += 1
            time.sleep(self.chance.uniform(0.05, 2 * self.args.every))

    def _kill(self) -> None:
        role = self.chance.choices(list(PROBABLE), list(PROBABLE.values()))[0]
        name = self.chance.choice([n for n in self.fleet.processes if n.startswith(role)])
        self.fleet.kill(name)
        self.killed[role] += 1
        time.sleep(self.chance.uniform(0, PAUSE_S))
        self.start(name)

    def _revive(self) -> None:
        """No party but the coordinator may end by itself."""
        for name, process in self.fleet.processes.items():
            if name != "coordinator" and process.poll() is not None:
                raise SystemExit(f"{name} ended by itself with {process.returncode}")

    def state(self) -> dict[str, Any]:
        """How far it has come."""
        return {"rounds": self.rounds_done(), "kills": dict(self.killed), "cuts": self.cuts}


def main() -> None:
    """Run the campaign, check, and print or save what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--devices", type=int, default=2, help="of each of the two edge servers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between kills, mean")
    parser.add_argument("--deadline", type=float, default=10.0, help="of an edge round, s")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all of it")
    parser.add_argument("--keep", type=Path, help="a new folder in which everything stays")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        scenario = small(2, args.devices, args.rounds)
        fleet = Fleet(folder, scenario)
        campaign = Campaign(fleet, args)
        began = time.monotonic()
        try:
            campaign.run()
        finally:
            fleet.close()
        found = {**campaign.state(), "wall_s": round(time.monotonic() - began, 1)}
        found |= check_run(folder, scenario)
        found |= {"devices": 2 * args.devices, "edges": 2}
    tell(found, args.save)


if __name__ == "__main__":
    main()
