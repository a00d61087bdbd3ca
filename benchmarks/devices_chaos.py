"""Kills and cut connections while a run on real devices goes on, and whether all adds up.

    python benchmarks/devices_chaos.py [--kills 100] [--cuts 30] [--rounds 40] [--edges 3]
        [--policy fedrt] [--edge-rounds 2] [--lose 4] [--save FILE]
    python benchmarks/devices_chaos.py --short

All parties are processes of this machine. `--short` goes through three and four edge servers and
policies that drop links with a few kills each. Devices, edge servers and the coordinator are killed
with SIGKILL at random moments and started again with the same command; connections of devices are
cut in the middle of uploads; some edge servers lose their states besides, and get a model back.
Afterwards every average is computed again from the updates on the edge servers' disks, which is
what was acknowledged, by numpy and by the learning code to the bit; so is every gossip. An update
must not be in two averages of the run that was kept.
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
LOST = ".lost"
PROBABLE = {"device": 6, "edge": 3, "coordinator": 2}


class Campaign:
    """One run with its kills and cuts."""

    def __init__(self, fleet: Fleet, args: argparse.Namespace) -> None:
        self.fleet, self.args = fleet, args
        self.chance = random.Random(args.seed)
        self.killed: Counter[str] = Counter()
        self.lost = 0
        """Edge servers that lost their folder."""
        self.proxies = [CuttingProxy(port, random.Random(port)) for port in fleet.ports]
        fleet.doors = [proxy.door for proxy in self.proxies]
        self.end = time.monotonic() + args.limit

    def start(self, name: str) -> None:
        """Start a party with the settings of the campaign."""
        more = ["--keep-updates"] if name.startswith("edge") else []
        if name == "coordinator":
            more = ["--policy", self.args.policy, "--wait", "120", "--least-deadline"]
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
        if role == "edge" and self.lost < self.args.lose:
            self.lost += 1
            lose(self.fleet.folder / "state" / name)
        time.sleep(self.chance.uniform(0, PAUSE_S))
        self.start(name)

    def _revive(self) -> None:
        """No party but the coordinator may end by itself."""
        for name, process in self.fleet.processes.items():
            if name != "coordinator" and process.poll() is not None:
                raise SystemExit(f"{name} ended by itself with {process.returncode}")

    def state(self) -> dict[str, Any]:
        """How far it has come."""
        done = {"rounds": self.rounds_done(), "kills": dict(self.killed), "cuts": self.cuts}
        log = (self.fleet.folder / "coordinator.log").read_text(errors="replace")
        if any(text in log for text in ("starting over", "earlier state", "cannot go on")):
            raise SystemExit(f"the coordinator could not read what it had written: {done}")
        lines = ("has lost its state", "going on after global round")
        lost, again = (sum(text in line for line in log.splitlines()) for text in lines)
        return done | {"lost_folders": self.lost, "models_sent_back": lost, "resumed": again}


def lose(folder: Path) -> None:
    """Have an edge server lose the states and reports that no check of averages will miss.

    What an order was and which updates were acknowledged stays, so that all can be checked.
    """
    for path in folder.glob("*/*"):
        if path.suffix in (".npz", ".report"):
            path.rename(path.with_name(path.name + LOST))


def found_again(folder: Path) -> None:
    """Put what edge servers have lost where the checks look for it."""
    for path in sorted(folder.glob(f"*/*/*.report{LOST}")):
        label = path.name.removesuffix(f".report{LOST}")
        if not (path.parent / f"{label}.report").exists():  # else it was reached once more
            for end in (".npz", ".report"):
                (path.parent / f"{label}{end}{LOST}").rename(path.parent / f"{label}{end}")


def short(args: argparse.Namespace) -> list[argparse.Namespace]:
    """A few kills on three and four edge servers, under policies that drop links."""
    base = vars(args) | {"kills": 10, "cuts": 3, "rounds": 8, "lose": 1}
    cases = [(3, "fedrt", 2), (4, "fedrt", 1), (3, "fedrt-plus", 1), (4, "fedrt-plus", 2)]
    names = ("edges", "policy", "edge_rounds")
    return [argparse.Namespace(**(base | dict(zip(names, case, strict=True)))) for case in cases]


def main() -> None:
    """Run the campaign, check, and print or save what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--edges", type=int, default=3)
    parser.add_argument("--edge-rounds", type=int, default=2)
    parser.add_argument("--policy", default="fedrt")
    parser.add_argument("--lose", type=int, default=4, help="edge servers that lose their folder")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--devices", type=int, default=2, help="of each edge server")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between kills, mean")
    parser.add_argument("--deadline", type=float, default=10.0, help="of an edge round, s")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all of it")
    parser.add_argument("--keep", type=Path, help="a new folder in which everything stays")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    found = [campaign(each) for each in (short(args) if args.short else [args])]
    tell({"campaigns": found} if args.short else found[0], args.save)


def campaign(args: argparse.Namespace) -> dict[str, Any]:
    """Carry a campaign out and check it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        length = f"edge_rounds={args.edge_rounds},local_steps=2,gossip_steps=2"
        rounds = f"rounds={{global_rounds={args.rounds},{length}}}"
        scenario = small(args.edges, args.devices, args.rounds, rounds)
        fleet = Fleet(folder, scenario)
        running = Campaign(fleet, args)
        began = time.monotonic()
        try:
            running.run()
        finally:
            fleet.close()
        found = {**running.state(), "wall_s": round(time.monotonic() - began, 1)}
        found_again(folder / "state")
        found |= check_run(folder, scenario)
        sizes = {"devices": args.edges * args.devices, "edges": args.edges}
        return found | sizes | {"policy": args.policy}


if __name__ == "__main__":
    main()
