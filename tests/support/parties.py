"""A run's rounds carried out by devices, edge servers and a coordinator without a network."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from fedrt.data.digest import data_digest
from fedrt.data.partitions import load_divided
from fedrt.data.split import TEST_FILE, device_file, write_files
from fedrt.learning.remote import (
    Averaged,
    EdgeModel,
    Evaluator,
    LocalTrainer,
    gossip_orders,
    mean_loss,
)
from fedrt.runs.rounds import GlobalRound
from fedrt.scenario import Scenario
from fedrt.world.fleet import edge_of_devices
from support.trained import trained

SIX = (
    "fleet.num_edges=2",
    "fleet.num_devices=6",
    "fleet.cluster_sizes=[3,3]",
    "rounds={global_rounds=3,edge_rounds=2,local_steps=2,gossip_steps=2}",
    "learning.normalise={mean=0.3,deviation=0.4}",
    "learning.evaluate_every=1",
)


class Convolutions(nn.Module):
    """Channels enough that a processor has several ways to compute them."""

    def __init__(self, shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(shape[0], 20, 5), nn.Conv2d(20, 50, 5)
        self.head = nn.Linear(50 * (shape[1] - 8) * (shape[2] - 8), num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.second(self.first(images).relu()).relu().flatten(1))


def six(*settings: str) -> Scenario:
    """Six devices on two edge servers that train on digits."""
    return trained(*SIX, *settings)


def spread(edges: int, devices: int, *settings: str) -> Scenario:
    """Devices spread evenly over edge servers, all of which may have links; trained on digits."""
    sizes = [devices // edges + (c < devices % edges) for c in range(edges)]
    fleet = f"fleet={{num_edges={edges},num_devices={devices},cluster_sizes={sizes}}}"
    return trained(*SIX[3:], fleet, 'base_graph={kind="complete"}', *settings)


def through_file(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as a file keeps them."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **state)
    file.seek(0)
    return dict(np.load(file, allow_pickle=False))


def split(folder: Path, scenario: Scenario, seed: int = 0) -> Path:
    """The files of all parties in a folder."""
    edge_of_device = edge_of_devices(scenario)
    dataset, parts = load_divided(scenario.learning, None, edge_of_device, seed)
    write_files(folder, dataset, parts, seed, data_digest(dataset))
    return folder


@dataclass
class Parties:
    """All parties of a run in one process."""

    folder: Path
    scenario: Scenario
    seed: int = 0
    devices: dict[int, LocalTrainer] = field(default_factory=dict)
    edges: list[EdgeModel] = field(default_factory=list)
    done: list[list[Averaged]] = field(default_factory=list)
    """What the edge servers averaged, for each edge round."""

    def __post_init__(self) -> None:
        self.evaluator = Evaluator.open(self.scenario, self.seed, self.folder / TEST_FILE)
        for number in range(self.scenario.fleet.num_devices):
            self.devices[number] = self.device(number)
        for edge in range(self.scenario.fleet.num_edges):
            self.edges.append(self.edge(edge))

    def device(self, number: int, state=None) -> LocalTrainer:
        file = self.folder / device_file(number)
        made = LocalTrainer.open(self.scenario, self.seed, number, file, self.evaluator.inputs)
        made.restore(through_file(state or {}))
        return made

    def edge(self, number: int) -> EdgeModel:
        return EdgeModel.open(self.scenario, self.seed, number, self.evaluator.inputs)

    def restart(self) -> None:
        """Every device and edge server anew, from what it has saved."""
        for number, old in self.devices.items():
            self.devices[number] = self.device(number, old.state())
        for number, held in enumerate(self.edges):
            self.edges[number] = self.edge(number)
            self.edges[number].restore(through_file(held.state()))

    def train(self, turn, *, restarts: bool = False) -> list[Averaged]:
        """One edge round as it was planned; what every edge server averaged."""
        seen, plan, came = turn.seen, turn.plan, turn.outcome.delivered
        names = None
        if plan.codec is not None:
            names = np.array(seen.menu.names)[plan.codec]
        done = []
        for edge in self.edges:
            mine = np.flatnonzero(came & (seen.edge_of_device == edge.edge))
            who = seen.device[mine].tolist()
            codecs = None if names is None else names[mine].tolist()
            samples = [self.devices[n].samples for n in who]
            orders = edge.orders(seen.t, seen.r, who, plan.local_steps[mine], codecs, samples)
            results = {}
            for order in orders:
                device, model = self.devices[order.device], edge.model()
                result = device.train(order, model)
                if restarts:
                    # It loses the answer, starts again, and is told then that it arrived.
                    device = self.devices[order.device] = self.device(order.device, device.state())
                assert edge.problem(result, order) is None
                results[order.device] = result
                device.settle(True)
            done.append(edge.average(seen.t, seen.r, orders, results))
        self.done.append(done)
        return done

    def mix(self, t: int, gossip, *, stop_at: int | None = None) -> None:
        """The gossip of a global round; all edge servers restart in the middle of a step."""
        orders = gossip_orders(t, gossip, self.scenario)
        for edge, order in zip(self.edges, orders, strict=True):
            edge.begin(order)
        for step in range(gossip.steps):
            for c, order in enumerate(orders):
                sent = {j: self.edges[j].message_to(c, step) for j in order.neighbours}
                if step == stop_at:
                    self.restart()
                    self.edges[c].begin(order)
                self.edges[c].receive(step, sent)
        for edge in self.edges:
            edge.end()
            edge.end()

    def metrics(self, t: int, averaged: list) -> dict[str, float]:
        models = [edge.model() for edge in self.edges]
        return self.evaluator.metrics(t, models, mean_loss(averaged))


def carry_out(parties: Parties, rounds: list[GlobalRound], watch, *, restarts: bool = False):
    """Carry out the rounds of a run; `watch(moment, t, r)` after each."""
    found = []
    for done in rounds:
        averaged = []
        for turn in done.edge_rounds:
            averaged.append(parties.train(turn, restarts=restarts))
            watch("trained", turn.t, turn.r)
            if restarts:
                parties.restart()
        last = done.last
        parties.mix(last.t, last.gossip, stop_at=1 if restarts else None)
        watch("mixed", last.t, last.r)
        found.append(parties.metrics(last.t, averaged))
    return found
