"""An edge round that is under way at an edge server, with the streams of two of its devices."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from fedrt.devices.wire import messages_pb2 as pb
from support.fake_device import coordinator, device

INPUTS = pb.Inputs(shape=[1, 8, 8], num_classes=10)


class Round:
    """An edge round under way: devices 0 and 1 have their orders."""

    def __init__(self, bad, good, order, model, chief, training):
        self.bad, self.good, self.order, self.model = bad, good, order, model
        self.chief, self.training = chief, training

    async def end(self):
        """The good device delivers; the report, by device."""
        assert (await self.good.upload(self.order.key, self.model)).accepted
        report = await self.training
        return {each.number: each for each in report.devices}


@asynccontextmanager
async def opened(edge, *, run="run"):
    """A round with a bad device 0 and a good device 1."""
    address, site, scenario = edge.addresses[0], edge.site, edge.scenario
    files = [site.files("device", f"device-{n}") for n in (0, 1)]
    chief_files = site.files("coordinator", "coordinator")
    async with (
        coordinator(address, chief_files, scenario, INPUTS) as chief,
        device(address, files[0]) as bad,
        device(address, files[1]) as good,
    ):
        chief.run = chief.question.run = run
        await bad.greet(scenario)
        await good.greet(scenario)
        await chief.ask()
        training = asyncio.create_task(chief.train([0, 1]))
        order, model = await bad.order()
        await good.order()
        yield Round(bad, good, order, model, chief, training)
        training.cancel()
