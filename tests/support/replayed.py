"""Computes again what edge servers did in a run, from the orders and updates on their disks.

The servers have to run with `--keep-updates`, and to take the plain mean of whole models. Any
difference is an AssertionError with one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedrt.devices.edge.states import START, States
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.learning.remote import EdgeModel, Evaluator
from fedrt.scenario import Scenario

RESTORED = "-restored-"
"""What is in the name of a state that came back from the coordinator."""
CLOSE = 1e-5
"""Between float32 averages in another order of summation, of weights below 10."""


class Replay:
    """The states of one edge server."""

    def __init__(self, folder: Path, scenario: Scenario, number: int, inputs: Any) -> None:
        runs = list((folder / "state" / f"edge-{number}").iterdir())
        require(len(runs) == 1, f"edge-{number}: {len(runs)} runs")
        self.states, self.number = States(runs[0]), number
        self.model = EdgeModel.open(scenario, 0, number, inputs)
        self.first = self.model.state()
        self.labels = sorted(path.stem for path in runs[0].glob("*.report"))

    def arrays(self, label: str) -> dict[str, Any]:
        """A state as the learning code takes it."""
        held = self.first if label == START else dict(self.states.load(label))
        return {key: value for key, value in held.items() if key != "remembered"}

    def weights_of(self, label: str) -> Any:
        """The model in a state."""
        return np.asarray(self.arrays(label)["models"][0])

    def order(self, label: str) -> Any:
        """The order that led to a state."""
        raw = (self.states.folder / f"{label}.order").read_bytes()
        kind = pb.MixOrder if "-mix-" in label else pb.TrainOrder
        return kind.FromString(raw)

    def check_average(self, label: str) -> int:
        """Compute an average again from what was acknowledged; the number of updates in it."""
        where = f"edge-{self.number}, {label}"
        order = self.order(label)
        report = pb.TrainReport.FromString(self.states.report(label))
        kept = self.states.updates(label)
        said = {each.number for each in report.devices if each.delivered}
        require(said == set(kept), f"{where}: counted {said}, acknowledged {set(kept)}")
        for each in kept.values():
            require(each.upload.key == order.key, f"{where}: an update of another round")
        self.model.restore(self.arrays(order.base))
        devices = order.devices
        given = self.model.orders(
            order.key.t,
            order.key.r,
            [each.number for each in devices],
            [each.local_steps for each in devices],
            [each.codec for each in devices] if order.coded else None,
            [each.samples for each in devices],
        )
        results = {number: each.result().loaded() for number, each in kept.items()}
        self.model.average(order.key.t, order.key.r, given, results)
        found, saved = self.model.state()["models"][0], self.weights_of(label)
        require(np.array_equal(found, saved), f"{where}: another average to the bit")
        messages = [each.message for each in results.values()]
        self._check_mean(where, order, messages, saved)
        return len(kept)

    def _check_mean(self, where: str, order: Any, messages: list[Any], saved: Any) -> None:
        """The same by hand: the plain mean of whole models in float32."""
        if not messages:
            require(np.array_equal(self.weights_of(order.base), saved), f"{where}: has moved")
            return
        mean = np.mean([np.frombuffer(each, "<f4") for each in messages], 0, float)
        worst = float(np.abs(mean - saved).max())
        require(worst < CLOSE, f"{where}: {worst} from the mean of its updates")

    def check_restored(self, label: str) -> None:
        """A model that came back from the coordinator is one that this server once had."""
        model = self.weights_of(label)
        had = (each for each in (START, *self.labels) if RESTORED not in each)
        where = f"edge-{self.number}, {label}"
        require(any(np.array_equal(model, self.weights_of(each)) for each in had), where)

    def lineage(self, label: str) -> list[str]:
        """The states that a state goes back to, latest first, to one that was restored."""
        found = []
        while label != START and RESTORED not in label:
            found.append(label)
            label = self.order(label).base
        return found


def check_run(folder: Path, scenario: Scenario) -> dict[str, Any]:
    """Check everything about a run that has ended; counts of what was checked."""
    inputs = Evaluator.open(scenario, 0, folder / "data" / "server.npz").inputs
    replays = [Replay(folder, scenario, c, inputs) for c in range(scenario.fleet.num_edges)]
    counts = {"averages": 0, "updates": 0, "updates_of_the_run": 0, "gossips": 0, "restored": 0}
    averages = {
        (replay.number, label): replay.check_average(label)
        for replay in replays
        for label in replay.labels
        if "-mix-" not in label and RESTORED not in label
    }
    for replay in replays:
        restored = [label for label in replay.labels if RESTORED in label]
        for label in restored:
            replay.check_restored(label)
        counts["restored"] += len(restored)
    counts["averages"], counts["updates"] = len(averages), sum(averages.values())
    for replay in replays:
        line = replay.lineage([each for each in replay.labels if RESTORED not in each][-1])
        places = [label[:9] for label in line]
        require(places == sorted(set(places), reverse=True), f"a round counted twice: {places}")
        counts["updates_of_the_run"] += sum(averages.get((replay.number, a), 0) for a in line)
    everywhere = set.intersection(*(set(replay.labels) for replay in replays))
    for label in sorted(label for label in everywhere if "-mix-" in label):
        check_gossip(replays, label)
        counts["gossips"] += 1
    return counts


def check_gossip(replays: list[Replay], label: str) -> None:
    """Compute a gossip of whole models again, all servers at once."""
    orders = [replay.order(label) for replay in replays]
    weights = np.zeros((len(replays), len(replays)))
    for c, order in enumerate(orders):
        weights[c, c] = order.own
        for each, weight in zip(order.neighbours, order.weights, strict=True):
            weights[c, each.number] = weight
    pairs = zip(replays, orders, strict=True)
    models = np.stack([replay.weights_of(order.base) for replay, order in pairs]).astype(float)
    for _ in range(orders[0].steps):
        models = weights @ models
    saved = np.stack([replay.weights_of(label) for replay in replays])
    worst = float(np.abs(models - saved).max())
    require(worst < CLOSE, f"{label}: {worst} from the gossip of its states")


def require(holds: bool, line: str) -> None:
    """Raise an error with a line unless something holds."""
    if not holds:
        raise AssertionError(line)
