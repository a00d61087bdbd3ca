"""An edge server's links to its peers: whether they answer, and what they send."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import grpc

from fedrt.devices.security import Channels, Files, Party, RevokedServerError
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.chunks import BrokenPayloadError, fetched
from fedrt.devices.wire.services import call, reason_of
from fedrt.errors import FedrtError
from fedrt.messages import Raw

log = logging.getLogger(__name__)

ANSWER_S = 3.0
"""Within which a peer has to answer to count as reachable."""
AGAIN_S = 0.2
"""Between two tries to reach a peer."""
MODEL_S = 600.0


class Bell:
    """Wakes everybody who waits for something new."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until woken, or some seconds."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return


class LostLinkError(FedrtError):
    """A neighbour could not be reached in time."""


class WrongMessageError(FedrtError):
    """A neighbour has sent what cannot be used."""


class PeerLinks:
    """The channels of an edge server to its peers."""

    def __init__(self, files: Files) -> None:
        self.channels = Channels(files)
        self.made = Bell()
        self.most = 0
        """Bytes of the longest model or message that is taken; the model's process knows."""

    async def answering(self, peers: Iterable[pb.Peer]) -> list[int]:
        """The numbers of the peers that can be reached now."""

        async def answers(peer: pb.Peer) -> bool:
            try:
                ready = self.channels.to(edge_party(peer.number), peer.address).channel_ready()
                await asyncio.wait_for(ready, ANSWER_S)
            except (TimeoutError, grpc.aio.AioRpcError):
                return False
            return True

        asked = list(peers)
        found = await asyncio.gather(*map(answers, asked))
        return [peer.number for peer, answered in zip(asked, found, strict=True) if answered]

    async def fetch_all(
        self, neighbours: Mapping[int, str], order: pb.MixOrder, step: int, seconds: float
    ) -> dict[int, Raw]:
        """What all neighbours send in a gossip step.

        An error if one cannot be reached in time, or sends something broken.
        """

        async def one(number: int, address: str) -> Raw:
            asked = pb.Fetch(run=order.key.run, label=order.label, step=step)
            while True:
                try:
                    return await self._fetch(number, address, asked, max(seconds, 0.1))
                except BrokenPayloadError as error:
                    raise WrongMessageError(f"edge-{number} sends {error}") from None
                except (grpc.aio.AioRpcError, RevokedServerError) as error:
                    log.info("edge %d: %s", number, reason_of(error))
                    await asyncio.sleep(AGAIN_S)

        try:
            async with asyncio.timeout(max(seconds, 0.1)), asyncio.TaskGroup() as group:
                found = {each[0]: group.create_task(one(*each)) for each in neighbours.items()}
        except TimeoutError:
            raise LostLinkError(f"not all of the neighbours {list(neighbours)} answer") from None
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return {number: task.result() for number, task in found.items()}

    async def model_of(self, number: int, address: str, run: str, label: str) -> Raw | None:
        """The model of a peer in a state; None if it cannot be had."""
        try:
            return await self._fetch(number, address, pb.Fetch(run=run, label=label), MODEL_S)
        except (grpc.aio.AioRpcError, BrokenPayloadError, RevokedServerError) as error:
            log.info("edge %d: %s", number, reason_of(error))
            return None

    async def _fetch(self, number: int, address: str, asked: pb.Fetch, seconds: float) -> Raw:
        peer = edge_party(number)
        method = call(self.channels.to(peer, address), "Peers", "Fetch")
        answer = fetched(method(asked, timeout=seconds), self.most)
        return await self.channels.guarded(peer, answer)

    async def close(self) -> None:
        """Close all channels."""
        await self.channels.close()


def edge_party(number: int) -> Party:
    """An edge server as its certificate names it."""
    return Party("edge", f"edge-{number}")


def gossip_of(order: pb.MixOrder) -> Any:
    """The gossip of this server as the learning code takes it."""
    from fedrt.learning.remote import GossipOrder

    return GossipOrder(
        order.key.t,
        order.own,
        tuple(each.number for each in order.neighbours),
        tuple(order.weights),
        order.steps,
        order.codec,
        tuple(order.coded_weights),
        tuple(order.anew),
    )
