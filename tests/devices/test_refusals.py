"""What an edge server does not take from its devices, and that it goes on serving the others."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.enrolment import within
from support.fake_device import device
from support.open_round import opened
from support.parties import six
from support.running import running

from fedrt.devices.edge.rounds import MOST_FAILURES
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire import services
from fedrt.devices.wire.chunks import CHUNK, digest_of, head_of

# isort: split
import grpc  # after fedrt.devices, which keeps it from TLS 1.2

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    """An edge server of three devices that nobody else uses while a test does."""
    with running(tmp_path_factory.mktemp("edge"), six()) as fleet:
        fleet.start_edge(0)
        yield fleet


def refused(edge, name, work):
    """Run `work(round)`, after which the good device delivers and the bad one has not."""

    async def run():
        async with opened(edge, run=name) as round_:
            await work(round_)
            found = await round_.end()
            assert found[1].delivered
            assert not found[0].delivered
            return found[0].why

    return within(run())


def receipt_of(edge, name, change=lambda model: model, **report):
    """Why a changed update of the bad device is refused, by its receipt."""
    said = []

    async def work(round_):
        found = await round_.bad.upload(round_.order.key, change(round_.model), **report)
        assert not found.accepted
        said.append(found.why)

    why = refused(edge, name, work)
    assert said[0] in why
    return why


def first_is(number):
    def change(model):
        numbers = np.frombuffer(model, dtype="<f4").copy()
        numbers[0] = number
        return numbers.tobytes()

    return change


CONTENTS = {
    "short": (lambda model: model[:-4], {}, "bytes: must have"),
    "long": (lambda model: model + bytes(4), {}, "bytes: must have"),
    "empty": (lambda model: b"", {}, "bytes: must have"),
    "nan": (first_is(np.nan), {}, "not finite"),
    "infinite": (first_is(np.inf), {}, "not finite"),
    "loss": (lambda model: model, {"loss_sum": float("nan")}, "not finite"),
    "seconds": (lambda model: model, {"train_s": float("inf")}, "cannot be"),
    "download": (lambda model: model, {"download_s": float("nan")}, "cannot be"),
    "enforced": (lambda model: model, {"enforce_s": -1.0}, "cannot be"),
    "joules": (lambda model: model, {"joules": -1.0}, "cannot be"),
    "variate": (lambda model: model, {"variate": bytes(8)}, "variate"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_updates_with_wrong_contents_are_refused_in_words(edge, case):
    change, more, why = CONTENTS[case]
    assert why in receipt_of(edge, case, change, **more)


def test_claimed_seconds_are_at_most_those_of_the_edge_server(edge):
    async def run():
        async with opened(edge, run="years") as round_:
            years = {"train_s": 1e9, "enforce_s": 1e9}
            assert (await round_.bad.upload(round_.order.key, round_.model, **years)).accepted
            found = await round_.end()
            report = await round_.training
            assert 0 < found[0].report.train_s <= report.edge_s
            assert found[0].report.enforce_s <= report.enforce_s <= 2 * report.edge_s

    within(run())


@pytest.mark.parametrize("samples", [0, 10**10, 2**64 - 1])
def test_a_number_of_samples_that_cannot_be_is_refused(edge, samples):
    async def run():
        async with device(edge.addresses[0], edge.site.files("device", "device-2")) as odd:
            with pytest.raises((EOFError, grpc.aio.AioRpcError), match="samples"):
                await odd.greet(edge.scenario, samples=samples)

    within(run())


def test_an_update_delivered_twice_counts_once(edge):
    async def run():
        async with opened(edge, run="twice") as round_:
            for _ in range(3):
                assert (await round_.bad.upload(round_.order.key, round_.model)).accepted
            other = await round_.bad.upload(round_.order.key, first_is(0.5)(round_.model))
            assert "another update has been counted" in other.why
            report = await round_.end()
            assert report[0].delivered
            state = edge.folder / "state" / "edge-0" / "twice" / "000000-00-s.npz"
            with np.load(state) as saved:
                model = np.frombuffer(round_.model, dtype="<f4")
                np.testing.assert_allclose(saved["models"][0], model, rtol=1e-6, atol=1e-7)

    within(run())


KEYS = {
    "earlier round": {"r": 6},
    "another session": {"session": "other"},
    "another run": {"run": "other"},
    "another global round": {"t": 9},
}


@pytest.mark.parametrize("case", KEYS)
def test_updates_of_other_rounds_do_not_count(edge, case):
    async def run():
        async with opened(edge, run=case.replace(" ", "-")) as round_:
            key = pb.Key()
            key.CopyFrom(round_.order.key)
            for name, value in KEYS[case].items():
                setattr(key, name, value)
            found = await round_.bad.upload(key, first_is(100.0)(round_.model))
            assert "too late" in found.why
            assert (await round_.bad.upload(round_.order.key, round_.model)).accepted
            assert (await round_.end())[0].delivered

    within(run())


def test_a_replay_in_the_next_round_does_not_count(edge):
    async def run():
        async with opened(edge, run="replay") as round_:
            assert (await round_.bad.upload(round_.order.key, round_.model)).accepted
            await round_.end()
            training = asyncio.create_task(round_.chief.train([0, 1]))
            later, _ = await round_.bad.order()
            assert "too late" in (await round_.bad.upload(round_.order.key, round_.model)).why
            await round_.good.order()
            assert (await round_.good.upload(later.key, round_.model)).accepted
            assert (await round_.bad.upload(later.key, round_.model)).accepted
            assert all(each.delivered for each in (await training).devices)

    within(run())


def test_a_device_that_was_not_asked_does_not_count(edge):
    """It has the key of another device's order."""

    async def run():
        third = edge.site.files("device", "device-2")
        async with opened(edge, run="asked") as round_, device(edge.addresses[0], third) as odd:
            await odd.greet(edge.scenario)
            assert "not asked" in (await odd.upload(round_.order.key, round_.model)).why
            assert (await round_.bad.upload(round_.order.key, round_.model)).accepted
            assert sorted(await round_.end()) == [0, 1]

    within(run())


async def oversized(round_):
    head = pb.Payload(length=2**40, digest=bytes(16))
    await round_.bad.write(upload=pb.Upload(key=round_.order.key, message=head))


async def flood(round_):
    for _ in range(100):
        await round_.bad.write(chunk=bytes(CHUNK))


async def too_many_chunks(round_):
    head = head_of(round_.model)
    await round_.bad.write(upload=pb.Upload(key=round_.order.key, message=head))
    for _ in range(100):
        await round_.bad.write(chunk=bytes(CHUNK))


async def empty_chunks(round_):
    head = head_of(round_.model)
    await round_.bad.write(upload=pb.Upload(key=round_.order.key, message=head))
    for _ in range(100):
        await round_.bad.write(chunk=b"")


async def damaged(round_):
    message = bytes(len(round_.model))
    head = pb.Payload(length=len(message), digest=digest_of(round_.model))
    await round_.bad.write(upload=pb.Upload(key=round_.order.key, message=head))
    await round_.bad.write(chunk=message)


async def greeting_again(round_):
    await round_.bad.write(greeting=pb.Greeting())


async def nothing(round_):
    await round_.bad.write()


async def failures(round_):
    failure = pb.Failure(key=round_.order.key, why="x" * 100_000)
    for _ in range(MOST_FAILURES + 1):
        await round_.bad.write(failure=failure)


BREAKS = (
    oversized,
    flood,
    too_many_chunks,
    empty_chunks,
    damaged,
    greeting_again,
    nothing,
    failures,
)


@pytest.mark.parametrize("bad", BREAKS, ids=lambda bad: bad.__name__)
def test_what_breaks_the_protocol_ends_the_stream_alone(edge, bad):
    async def work(round_):
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await bad(round_)
        await round_.bad.ended()

    async def run():
        async with opened(edge, run=bad.__name__.replace("_", "-")) as round_:
            await work(round_)
            files = edge.site.files("device", "device-0")
            async with device(edge.addresses[0], files) as again:
                # It comes back, is asked again, and delivers.
                await again.greet(edge.scenario)
                order, model = await again.order()
                assert (await again.upload(order.key, model)).accepted
                assert all(each.delivered for each in (await round_.end()).values())

    within(run())


def test_an_upload_that_is_cut_off_is_asked_for_again(edge):
    async def run():
        async with opened(edge, run="cut") as round_:
            head = head_of(round_.model)
            await round_.bad.write(upload=pb.Upload(key=round_.order.key, message=head))
            await round_.bad.write(chunk=round_.model[:100])
            round_.bad.stream.cancel()
            files = edge.site.files("device", "device-0")
            async with device(edge.addresses[0], files) as again:
                await again.greet(edge.scenario)
                order, model = await again.order()
                assert model == round_.model
                assert (await again.upload(order.key, model)).accepted
                assert all(each.delivered for each in (await round_.end()).values())

    within(run())


def test_a_device_that_cannot_train_holds_up_nobody(edge):
    async def work(round_):
        await round_.bad.write(failure=pb.Failure(key=round_.order.key, why="no room"))

    assert refused(edge, "failing", work) == "no room"


# ---- messages of any kind


def fuzzed(chance, key, model):
    """A message that no device sends, as bytes."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 300))
    head = pb.Payload(length=chance.choice([0, 1, len(model), 2**63]), digest=chance.randbytes(16))
    report = pb.Report(loss_sum=chance.uniform(-1e300, 1e300), train_s=float("nan"))
    given = [
        pb.FromDevice(upload=pb.Upload(key=key, message=head, report=report)),
        pb.FromDevice(chunk=chance.randbytes(chance.randrange(3000))),
        pb.FromDevice(failure=pb.Failure(key=key, why=chance.randbytes(20).hex())),
        pb.FromDevice(greeting=pb.Greeting(samples=chance.getrandbits(64))),
    ]
    text = bytearray(chance.choice(given).SerializeToString())
    if kind == 1:
        return bytes(text[: chance.randrange(len(text) + 1)])
    for _ in range(chance.randrange(4)):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return bytes(text)


async def fuzz(edge, round_, count, seed):
    """Send so many messages over as many streams as it takes; the greatest growth of memory."""
    chance, sent = random.Random(seed), 0
    files = edge.site.files("device", "device-0")
    before = None
    while sent < count:
        async with device(edge.addresses[0], files) as odd:
            raw = odd.stream
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError):
                if chance.random() < 0.9:
                    await odd.greet(edge.scenario)
                for _ in range(chance.randrange(1, 40)):
                    await raw.write(Raw(fuzzed(chance, round_.order.key, round_.model)))
                    sent += 1
                if chance.random() < 0.5:
                    await raw.done_writing()
                    await odd.ended()
        sent += 1
        if before is None and sent > count // 5:  # by now everything has been loaded
            before = resident_bytes()
    return resident_bytes() - before


class Raw:
    """Bytes in the place of a message."""

    def __init__(self, text):
        self.text = text

    def SerializeToString(self):  # noqa: N802
        return self.text


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("count", [2000, pytest.param(10_000, marks=pytest.mark.long)])
def test_fuzzed_messages_neither_end_nor_fill_the_edge_server(edge, count, monkeypatch):
    kind = services.DEVICES["Attend"]
    serialise = pb.FromDevice.SerializeToString

    async def run():
        async with opened(edge, run=f"fuzz-{count}") as round_:
            grown = await fuzz(edge, round_, count, seed=count)
            assert grown < 20 * MEGABYTE, grown / MEGABYTE
            files = edge.site.files("device", "device-0")
            async with device(edge.addresses[0], files) as again:
                await again.greet(edge.scenario)
                order, model = await again.order()
                found = await again.upload(order.key, model)
                assert found.accepted, found.why
                assert all(each.delivered for each in (await round_.end()).values())

    class Loose:
        SerializeToString = staticmethod(
            lambda each: each.text if isinstance(each, Raw) else serialise(each)
        )
        FromString = pb.FromDevice.FromString

    monkeypatch.setitem(services.DEVICES, "Attend", kind._replace(request=Loose))
    within(run())
