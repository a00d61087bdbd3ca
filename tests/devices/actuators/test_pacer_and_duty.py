"""The actuators that need no root: rates and shares by a clock of their own, and the same bits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
from support.parties import six, split

from fedrt.data.split import device_file
from fedrt.devices.actuators.base import BandwidthActuator, CpuActuator, UplinkShare
from fedrt.devices.actuators.device import DeviceActuators
from fedrt.devices.actuators.duty import DutyCycle
from fedrt.devices.actuators.pacer import BURST_S, PIECE_S, Pacer
from fedrt.devices.coordinator.executor import RemoteExecutor
from fedrt.devices.coordinator.learned import Learned
from fedrt.devices.coordinator.world import slower_radio
from fedrt.devices.wire.chunks import CHUNK, chunks_of
from fedrt.devices.wire.messages_pb2 import Order, Report
from fedrt.learning.remote import EdgeModel, LocalTrainer
from fedrt.plan import upload_bits
from fedrt.policies import make_policy
from fedrt.runs.executor import SimulatedExecutor
from fedrt.runs.loop import run_rounds
from fedrt.world.simulated import SimulatedWorld


class Clock:
    """A clock that only sleeping and working move."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.cpu = 7.0

    def time(self) -> float:
        return self.now

    def cpu_time(self) -> float:
        return self.cpu

    def work(self, seconds: float, waited: float = 0.0) -> None:
        """Use the CPU, after having waited for it."""
        self.cpu += seconds
        self.now += seconds + waited

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def pause(self, seconds: float) -> None:
        self.now += seconds


def upload(pacer, clock, payload, stall=None):
    """Send a payload piece by piece; when each left, and how many bytes had by then."""
    sent, left = 0, []

    async def send():
        nonlocal sent
        for place, chunk in enumerate(chunks_of(payload, pacer.piece_bytes)):
            await pacer.wait(len(chunk))
            sent += len(chunk)
            left.append((clock.now, sent))
            if stall is not None and place == stall[0]:
                clock.now += stall[1]

    asyncio.run(send())
    return left


@pytest.mark.parametrize("rate_bps", [3e4, 1e6, 7.7e7, 2e9])
def test_an_upload_takes_its_bits_over_its_rate(rate_bps):
    clock = Clock()
    pacer = Pacer(clock.time, clock.pause)
    payload = bytes(300_001)
    for _ in range(2):  # a second order starts afresh
        began = clock.now = clock.now + 50.0
        pacer.apply([UplinkShare(3, rate_bps)])
        left = upload(pacer, clock, payload)
        assert left[-1][0] - began == pytest.approx(8 * len(payload) / rate_bps, rel=1e-9, abs=1e-9)
        for at, sent in left:
            assert sent <= rate_bps / 8 * (at - began) * (1 + 1e-9) + 1e-3
    assert pacer.piece_bytes == min(max(int(rate_bps * PIECE_S / 8), 1024), CHUNK)


def test_a_stalled_upload_makes_up_for_a_moment_only():
    clock = Clock()
    pacer = Pacer(clock.time, clock.pause)
    pacer.apply([UplinkShare(0, 1e6)])
    began, stall_s = clock.now, 5.0
    left = upload(pacer, clock, bytes(250_000), stall=(3, stall_s))
    # 2 Mbit at 1 Mbit/s are 2 s, and the stall, of which a tenth of a second is made up for.
    assert left[-1][0] - began == pytest.approx(2.0 + stall_s - BURST_S, rel=1e-9)


@pytest.mark.parametrize("actuator", [Pacer, BandwidthActuator])
def test_no_rate_is_no_wait(actuator):
    def never(*_):
        raise AssertionError("waits")

    bandwidth = actuator(lambda: 0.0, never) if actuator is Pacer else actuator()
    bandwidth.apply([UplinkShare(0, 0.0)])
    assert bandwidth.piece_bytes == CHUNK
    asyncio.run(bandwidth.wait(10**9))
    bandwidth.undo()
    asyncio.run(bandwidth.wait(10**9))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.85])
def test_a_duty_cycle_uses_its_share_of_the_cpu(share):
    clock = Clock()
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep)
    for work_s in (0.02, 0.4):
        assert duty.apply(share) == share
        began, cpu_began = clock.now, clock.cpu
        for _ in range(7):
            clock.work(work_s)
            duty.after_step()
            assert (clock.cpu - cpu_began) / (clock.now - began) == pytest.approx(share)
        duty.undo()
        at = clock.now
        duty.after_step()
        assert clock.now == at


def test_a_duty_cycle_pauses_seldom_and_ends_in_time():
    clock, pauses = Clock(), []
    duty = DutyCycle(clock.time, clock.cpu_time, lambda s: (pauses.append(s), clock.sleep(s)))
    began = clock.now
    duty.apply(0.25, 25)
    for _ in range(25):
        clock.work(0.011)
        duty.after_step()
    # 0.275 s of work: pauses after 10 and 20 steps, when 0.11 s more were used, and at the end.
    assert pauses == pytest.approx([0.33, 0.33, 0.165])
    assert clock.now - began == pytest.approx(0.275 / 0.25)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_a_device_keeps_its_pace_where_the_processors_speed_changes(share):
    """Steps of 20 ms count as 30: ahead of time it rests, and after slow ones it makes up."""
    clock = Clock()
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep, core_step_s=0.03)
    for slow in (1.0, 1.6, 0.7):
        assert duty.apply(share, 60) == share
        began = clock.now
        for step in range(60):
            clock.work(0.02 * (slow if step < 30 else 1.0))
            duty.after_step()
        assert clock.now - began == pytest.approx(60 * 0.03 / share)
        duty.undo()
        at = clock.now
        duty.after_step()
        assert clock.now == at


def test_a_pace_that_the_processor_cannot_keep_takes_longer():
    clock = Clock()
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep, core_step_s=0.03)
    duty.apply(1.0, 10)
    began = clock.now
    for _ in range(10):
        clock.work(0.05)
        duty.after_step()
    assert clock.now - began == pytest.approx(0.5)


@pytest.mark.parametrize(("cpu_hz", "share"), [(5e8, 0.15), (1e9, 0.3), (2e9, 0.3), (0.0, 0.3)])
def test_full_speed_may_be_a_share_of_a_core(cpu_hz, share):
    clock = Clock()
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep)
    actuators = DeviceActuators(BandwidthActuator(), duty, 0, 1e9, cpu_share=0.3)
    with actuators.training(Order(cpu_hz=cpu_hz), Report()):
        clock.work(0.6)
        duty.after_step()
    assert clock.now == pytest.approx(1000.0 + 0.6 / share)


class Rough(CpuActuator):
    """Holds the CPU to a greater share than it was told."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def apply(self, share: float, steps: int = 0) -> float:
        return self.factor * share


@pytest.mark.parametrize(("factor", "words"), [(1.0, ""), (1.04, ""), (1.06, "0.500"), (2, "1.00")])
def test_a_share_that_is_read_back_greater_than_kernels_round_is_noted(factor, words, caplog):
    """Half the speed of a whole core; kernels round by up to 5 %."""
    actuators = DeviceActuators(BandwidthActuator(), Rough(factor), 0, 1e9)
    with actuators.training(Order(cpu_hz=5e8), Report()):
        pass
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == bool(words)
    assert all("share of 0.500 was asked for" in line and words in line for line in lines)


def test_time_without_the_cpu_counts_as_rest():
    clock = Clock()
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep)
    duty.apply(0.5)
    clock.work(1.0, waited=0.6)
    duty.after_step()  # 1 s of work at one half is 2 s, of which 1.6 have gone by
    assert clock.now == pytest.approx(1002.0)
    clock.work(1.0, waited=9.0)
    duty.after_step()  # already slower than it has to be
    assert clock.now == pytest.approx(1012.0)


def test_closing_ends_a_sleep_and_what_comes_after():
    duty = DutyCycle(cpu_clock=iter([0.0, 1e6, 2e6]).__next__)
    duty.apply(1e-3)
    duty.close()
    duty.after_step()  # would sleep for weeks
    assert duty.apply(0.1) == 1.0
    assert CpuActuator().apply(0.1) == 1.0


def trained(tmp_path, after_step, *settings):
    scenario = six(*settings)
    trainer = LocalTrainer.open(scenario, 0, 1, tmp_path / device_file(1))
    edge = EdgeModel.open(scenario, 0, 0, trainer.inputs)
    (order,) = edge.orders(0, 1, [1], np.array([5]), None, [trainer.samples])
    return trainer.train(order, edge.model(), after_step)


@pytest.mark.parametrize("settings", [(), ("learning.upload=int4", "learning.augment=true")])
def test_a_duty_cycle_changes_no_bit(tmp_path, settings):
    clock, steps = Clock(), []
    duty = DutyCycle(clock.time, clock.cpu_time, clock.sleep)

    def after_step():
        clock.work(0.25)
        steps.append(clock.now)
        duty.after_step()

    split(tmp_path, six(*settings))
    duty.apply(0.25)
    slow = trained(tmp_path, after_step, *settings)
    fast = trained(tmp_path, None, *settings)
    assert slow.message == fast.message
    assert slow.loss_sum == fast.loss_sum
    assert np.diff(steps) == pytest.approx(np.ones(4))


@pytest.mark.parametrize("law", [(), ("channel.law=noise-density", "channel.reference_hz=1e6")])
def test_rates_are_those_of_the_scenario_whatever_was_learned(law):
    world = SimulatedWorld(six(*law), 0)
    rounds = run_rounds(world, make_policy("fedrt"), SimulatedExecutor(world))
    turn = next(iter(rounds)).edge_rounds[0]
    seen, plan = turn.seen, turn.plan
    learned = Learned(6, 2)
    fleet = SimpleNamespace(settings=SimpleNamespace(scenario=six(*law)), labels=[""])
    executor = RemoteExecutor(fleet, learned, None, None)
    rates = executor._rates_bps(seen, plan)
    expected = upload_bits(plan, seen) / turn.outcome.planned.upload_s
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    if not law:
        np.testing.assert_allclose(rates, plan.bandwidth_hz * np.log2(1 + seen.snr), rtol=1e-9)
    for number, held in enumerate(learned.upload):
        held.add(1.05 + 0.1 * number, 0)
    slower = slower_radio(seen, learned.upload_of(seen.device))
    np.testing.assert_allclose(executor._rates_bps(slower, plan), rates, rtol=1e-9)
