"""The real fleet as the coordinator sees it: edge servers, connected devices, and their states."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.common.metrics import Metrics
from fedrt.devices.common.settings import CoordinatorSettings
from fedrt.devices.coordinator.answers import AnswerRules
from fedrt.devices.coordinator.edges import EdgeCalls, Portal, SilentEdgeError
from fedrt.devices.edge.states import START
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.party import difference, own_party, with_model
from fedrt.errors import InputError
from fedrt.world.fleet import edge_of_devices

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""Within which an edge server has to answer who is connected; loading torch may take it long."""
FIRST_ANSWER_S = 60.0


class RealFleet:
    """Edge servers and devices of a run."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        run: str,
        inputs: pb.Inputs,
        tell: Callable[[str], None],
    ) -> None:
        self.settings, self.run, self.inputs, self.tell = settings, run, inputs, tell
        self.party = own_party(settings.scenario, settings.seed)
        self.portal = Portal()
        rules = AnswerRules(edge_of_devices(settings.scenario))
        self.calls = EdgeCalls(settings.edges, settings.files, rules)
        self.calls.question = self._question
        edges = len(settings.edges)
        self.labels = [START] * edges
        """The state that each edge server is in."""
        self.samples: dict[int, int] = {}
        self.answered = np.zeros(edges, dtype=bool)
        self.links = np.zeros((edges, edges), dtype=bool)
        self.base_graph = ~np.eye(edges, dtype=bool)
        """Which servers have a link at all: others are not asked for."""
        self.seated: set[int] = set()
        """The devices that were connected when the servers were last asked."""
        self.changed: Callable[[], None] = lambda: None
        """Called when devices or servers have come or gone."""
        self.counts: dict[str, float] = {}
        """Numbers of the last round, for monitoring."""
        self._metrics: Metrics | None = None
        self.model_digest = ""
        self._waited = False

    def connected(self) -> set[int]:
        """Ask all edge servers who is connected, and which peers they reach."""
        found = self.portal.call(self._ask_all())
        seats = {seat.number: seat.samples for answer in found if answer for seat in answer.seats}
        self.samples |= seats
        edges, before = len(found), (self.seated, self.answered.tolist())
        links = np.zeros((edges, edges), dtype=bool)
        for c, answer in enumerate(found):
            self.answered[c] = answer is not None
            if answer is not None:
                links[c, [n for n in answer.peers if n < edges]] = True
                self._check(c, answer)
        self.links = links & links.T
        self.seated = set(seats)
        if before != (self.seated, self.answered.tolist()):
            self.changed()
        return self.seated

    def start_metrics(self) -> None:
        """Serve the numbers of the run, if the settings say where."""
        given = self.settings
        self._metrics = self.portal.call(Metrics.maybe(given.metrics, given.name, self._numbers))

    def _numbers(self) -> dict[str, float]:
        now = {"connected_devices": len(self.seated), "answering_edges": self.answered.sum()}
        return {name: float(value) for name, value in now.items()} | self.counts

    def reachable(self) -> NDArray[np.bool_]:
        """The pairs of servers that reached each other when they were last asked."""
        return self.links

    async def _ask_all(self) -> list[Any]:
        peers = [pb.Peer(number=c, address=a) for c, a in enumerate(self.settings.edges)]
        seconds = ANSWER_S if self._waited else FIRST_ANSWER_S

        async def one(c: int) -> Any:
            others = [peers[j] for j in np.flatnonzero(self.base_graph[c])]
            try:
                return await self.calls.ask(c, "Ask", self._question(others), seconds)
            except SilentEdgeError as error:
                log.warning("%s", error)
                return None

        found = await asyncio.gather(*(one(c) for c in range(len(peers))))
        self._waited = True
        return list(found)

    def _question(self, peers: Iterable[pb.Peer] = ()) -> pb.Question:
        party = with_model(self.party, self.model_digest)
        return pb.Question(party=party, run=self.run, peers=peers, inputs=self.inputs)

    def _check(self, c: int, answer: Any) -> None:
        """Raise an error if an edge server has another version, scenario or model."""
        ours = with_model(self.party, self.model_digest)
        why = difference(ours, answer.party, f"edge-{c}")
        if why is not None:
            raise InputError(why)
        self.model_digest = self.model_digest or answer.party.model

    def address(self, c: int) -> str:
        """The address of an edge server."""
        return self.settings.edges[c]

    def close(self) -> None:
        """Close all connections."""
        if self._metrics is not None:
            self.portal.call(self._metrics.close())
        self.portal.call(self.calls.close())
        self.portal.close()
