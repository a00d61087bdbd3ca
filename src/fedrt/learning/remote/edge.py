"""One edge server by itself: its model, orders for its devices, averages, and gossip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import InputError
from fedrt.learning.aggregators import averaging_weights
from fedrt.learning.codecs import make_format
from fedrt.learning.distances import pairwise_distance
from fedrt.learning.engines.attacks import claimed_samples
from fedrt.learning.engines.edge_servers import EdgeServers, screening_of, with_codecs
from fedrt.learning.engines.engine import DeviceResults, Trained, TrainingOrder, part_of
from fedrt.learning.engines.screening import EdgeServer, average_in_turn, needs_rows
from fedrt.learning.remote.arrived import Arrived, WrongResultError, read_model
from fedrt.learning.remote.checks import remote_problems
from fedrt.learning.remote.device_steps import CODEC
from fedrt.learning.remote.gossip import GossipSteps
from fedrt.learning.remote.orders import (
    Averaged,
    GossipOrder,
    LocalOrder,
    LocalResult,
    ModelInputs,
)
from fedrt.learning.remote.parts import CommonParts, one_thread, open_parts
from fedrt.messages import Raw
from fedrt.rounds import ACCEPTED, REASONS
from fedrt.scenario.model import Scenario
from fedrt.world.faults import draw_attackers
from fedrt.world.fleet import edge_of_devices

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LAST = "last"


class EdgeModel:
    """The model of one edge server, and what it remembers of its devices and neighbours.

    It averages and refuses what arrives as the simulated edge servers do, to the same bits, and
    refuses besides what no device sends: messages that are cut short, damaged, of another codec or
    another shape, or not finite.
    """

    def __init__(self, parts: CommonParts, edge: int) -> None:
        scenario, seed = parts.scenario, parts.seed
        edge_of_device = edge_of_devices(scenario)
        if not 0 <= edge < scenario.fleet.num_edges:
            rule = f"below the scenario's {scenario.fleet.num_edges} edge servers"
            raise InputError(f"edge {edge}: must be {rule}")
        self.parts, self.edge = parts, edge
        self.devices: IntArray = np.flatnonzero(edge_of_device == edge)
        """The numbers of its devices in the fleet, rising."""
        home, scaffold = np.zeros(len(self.devices), dtype=np.int64), scenario.learning.scaffold
        given = (parts.method, parts.first_model, parts.size, home, 1)
        self.held = EdgeServers(*given, scaffold=bool(scaffold))
        self.screening = screening_of(scenario, seed, real=True)
        self.held.screen(self.screening)
        self.attackers: BoolArray | None = None
        if scenario.faults is not None:
            keys = np.arange(len(edge_of_device))
            found = draw_attackers(scenario.faults.attack, keys, edge_of_device, seed)
            self.attackers = found[self.devices]
        self.gossip = GossipSteps(parts, edge)
        self.last: tuple[int, int] | None = None
        """The global and the edge round of its last average."""

    @classmethod
    def open(cls, scenario: Scenario, seed: int, edge: int, inputs: ModelInputs) -> EdgeModel:
        """An edge server of a scenario as a run starts."""
        lines = remote_problems(scenario, integers=inputs.integers)
        if lines:
            raise InputError(lines)
        return cls(open_parts(scenario, seed, inputs), edge)

    @one_thread()
    def warm(self) -> None:
        """Read a message and gossip once for nothing: what has to be compiled then is."""
        form, numbers = make_format(CODEC), torch.zeros(64, dtype=self.parts.first_model.dtype)
        form.decode(form.encode(numbers), len(numbers))
        neighbour = 0 if self.edge else 1
        for more in ((), (CODEC, (0.5,))):
            steps = GossipSteps(self.parts, self.edge)
            steps.begin(GossipOrder(0, 0.5, (neighbour,), (0.5,), 1, *more), self.parts.first_model)
            steps.receive(0, {neighbour: steps.message_to(neighbour, 0)})

    @property
    def model_digest(self) -> str:
        """The digest of the architecture."""
        return self.parts.digest

    @property
    def model_bytes(self) -> int:
        """The length of a whole model."""
        return self.parts.model_bytes

    def model(self) -> bytes:
        """The model that its devices start from."""
        return self.parts.pack(self._model)

    @property
    def _model(self) -> Tensor:
        return self.held.models[0]

    @one_thread()
    def orders(
        self,
        t: int,
        r: int,
        devices: Sequence[int],
        local_steps: Sequence[int],
        codecs: Sequence[str] | None,
        samples: Sequence[int],
    ) -> list[LocalOrder]:
        """The orders for some of its devices, by their numbers in the fleet.

        `codecs` are those that a plan chooses, None if it chooses none; a device whose messages
        left too much out gets one with more bits.
        """
        if codecs is not None:
            self.held.let_plans_choose()
        named = [None] * len(devices) if codecs is None else codecs
        asked = [
            LocalOrder(t, r, int(steps), codec, None, int(device), int(count))
            for device, steps, codec, count in zip(
                devices, local_steps, named, samples, strict=True
            )
        ]
        for order in asked:
            if order.problem is not None:
                raise InputError(f"edge {self.edge}: {order.problem}")
        asked.sort(key=lambda order: order.device)
        if not asked:
            return []
        whole = self.held.completed(self._order(asked))
        names = [None] * len(asked) if whole.codec is None else self.held.codecs(whole)
        corrections: list[bytes | None] = [None] * len(asked)
        if whole.correction is not None:
            corrections = [self.parts.pack(row) for row in whole.correction]
        return [
            replace(order, codec=name, correction=correction)
            for order, name, correction in zip(asked, names, corrections, strict=True)
        ]

    def _order(self, orders: Sequence[LocalOrder]) -> TrainingOrder:
        """The orders of some devices as one, as engines have them."""
        who = np.array([order.device for order in orders])
        row = np.searchsorted(self.devices, who).clip(max=max(len(self.devices) - 1, 0))
        strange = who[self.devices[row] != who] if len(self.devices) else who
        if len(strange) or (np.diff(who) <= 0).any():
            raise InputError(f"edge {self.edge}: orders for devices {who.tolist()}: not its own")
        home = np.zeros(len(who), dtype=np.int64)
        samples = np.array([order.samples for order in orders])
        attackers = None if self.attackers is None else self.attackers[row]
        named = [order.codec for order in orders if order.codec is not None]
        correction = None
        if all(order.correction is not None for order in orders):
            size, what = self.parts.size, "the correction"
            given = (self.parts.unpack(order.correction or b"", what, size) for order in orders)
            correction = torch.stack(list(given)).numpy()
        order = TrainingOrder(
            seed=self.parts.seed,
            t=orders[0].t,
            r=orders[0].r,
            devices=who,
            edge_of_device=home,
            local_steps=np.array([order.local_steps for order in orders]),
            weight=averaging_weights(
                home,
                self.parts.method.aggregator,
                claimed_samples(samples, self.screening, attackers, orders[0].t),
                capped=self.held.past is not None,
            ),
            screening=self.screening,
            attackers=attackers,
            state_row=row,
            correction=correction,
        )
        if self.held.past is not None:
            order = self.held.past.ordered(order)
        return with_codecs(order, named) if named else order

    @one_thread()
    def problem(self, result: LocalResult, order: LocalOrder) -> str | None:
        """What is wrong with a result that has arrived; None if it can be averaged."""
        try:
            read_model(self.parts, order, result, self._model)
        except WrongResultError as why:
            return str(why)
        return None

    @one_thread()
    def average(
        self, t: int, r: int, orders: Sequence[LocalOrder], results: Mapping[int, LocalResult]
    ) -> Averaged:
        """Go on to the average of what has arrived by device, of all that had orders."""
        mine = sorted((o for o in orders if o.device in results), key=lambda o: o.device)
        if any((order.t, order.r) != (t, r) for order in mine):
            raise InputError(f"edge {self.edge}: orders of another round than ({t}, {r})")
        if self.last is not None and (t, r) <= self.last:
            raise InputError(f"edge {self.edge}: round ({t}, {r}): has averaged {self.last}")
        self.last = (t, r)
        if not mine:
            none = np.zeros(0, dtype=np.int64)
            return Averaged(none, none, {}, None, none, np.zeros(0), none)
        order, why, reasons = self._order(mine), {}, np.full(len(mine), ACCEPTED)
        arrived = Arrived(self.parts, mine, results, self._model)
        for n, each in enumerate(mine):
            try:
                arrived.check(each.device)
            except WrongResultError as refused:
                why[each.device], reasons[n] = str(refused), refused.kind
        whole = self._averaged(order, arrived, reasons)
        stepped_up = self.held.take(order, whole)
        for n in np.flatnonzero(whole.refused != ACCEPTED).tolist():
            why.setdefault(mine[n].device, REASONS[whole.refused[n]])
        lengths = [len(got.message) + len(got.variate or b"") for got in self._of(mine, results)]
        return Averaged(
            order.devices,
            whole.refused,
            why,
            stepped_up,
            np.array(lengths),
            np.array([got.loss_sum for got in self._of(mine, results)]),
            order.local_steps,
        )

    @staticmethod
    def _of(orders: Sequence[LocalOrder], results: Mapping[int, LocalResult]) -> list[LocalResult]:
        return [results[order.device] for order in orders]

    def _averaged(self, order: TrainingOrder, arrived: Arrived, reasons: IntArray) -> Trained:
        """The average of the results with nothing wrong, which may yet be refused as outliers."""
        models, filled = self.held.models, DeviceResults.blank(order)
        good = np.flatnonzero(reasons == ACCEPTED)
        filled.refused[:] = reasons
        if not len(good):
            return Trained(models, filled)
        some, aggregator = part_of(order, good), self.parts.method.aggregator
        if len(good) < len(reasons) and not needs_rows(some, aggregator):
            some = replace(some, weight=some.weight / some.weight.sum())
        server = EdgeServer(aggregator, self.parts.size)
        found = average_in_turn(arrived.in_turn, models, some, server)
        filled.put(good, found.devices)
        return Trained(found.models, filled)

    @one_thread()
    def distance_to(self, model: Raw) -> float:
        """The L2 norm between the parameters of another edge server's model and its own."""
        other = self.parts.unpack(model, "the model")
        both = torch.stack([self._model, other])[:, : self.parts.size]
        return float(pairwise_distance(both)[0, 1])

    def begin(self, order: GossipOrder) -> None:
        """Begin the gossip that ends a global round; told again, it goes on where it is."""
        self.gossip.begin(order, self._model)

    @one_thread()
    def message_to(self, neighbour: int, step: int) -> bytes:
        """What a neighbour gets in a step, the present or the one before; the same if asked again.

        Those of the last step are there until the next gossip begins.
        """
        return self.gossip.message_to(neighbour, step)

    def gossip_problem(self, message: Raw) -> str | None:
        """What is wrong with a message of a neighbour in this gossip; None if nothing is."""
        return self.gossip.problem(message)

    @one_thread()
    def receive(self, step: int, messages: Mapping[int, Raw]) -> None:
        """Carry out a step with the messages of all neighbours."""
        self.gossip.receive(step, messages)

    def end(self) -> None:
        """Go on with the model that all steps of the gossip have given; once, if told again."""
        model = self.gossip.end()
        if model is not None:
            self.held.models = model[None]

    def abandon(self) -> None:
        """End a gossip that cannot go on, with the model that its steps so far have given.

        All its edge servers have to: under a codec, what they know of each other begins anew.
        """
        model = self.gossip.abandon()
        if model is not None:
            self.held.models = model[None]

    def state(self) -> dict[str, NDArray[Any]]:
        """What must survive a restart, at any moment."""
        found = {**self.held.state(), **self.gossip.state()}
        if self.last is not None:
            found[LAST] = np.array(self.last)
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; an error if it is not that of such an edge server."""
        shape = np.shape(state["models"]) if "models" in state else ()
        if shape != tuple(self.held.models.shape):
            wanted = tuple(self.held.models.shape)
            raise InputError(f"the saved state: models are {shape}: must be {wanted}")
        if "guard" in state:
            self.held.let_plans_choose()
        self.held.restore(state)
        self.gossip.restore(state)
        last = state.get(LAST)
        self.last = None if last is None else (int(last[0]), int(last[1]))
