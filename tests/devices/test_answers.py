"""What coordinator and edge servers do not take from each other."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from support.parties import six
from support.running import running

from fedrt.devices.coordinator.answers import AnswerRules
from fedrt.devices.edge.orders import CoordinatorLimits
from fedrt.devices.edge.serve import EdgeServices
from fedrt.devices.edge.server import EdgeNode
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.errors import InputError
from fedrt.records.directory import read_run

HOMES = np.array([0, 0, 1, 2])
RULES = AnswerRules(HOMES)
QUESTION = pb.Question(peers=[pb.Peer(number=1)])
TRAIN = pb.TrainOrder(deadline_s=30.0, devices=[pb.DeviceOrder(number=n) for n in (0, 1)])
NEAR = [pb.Neighbour(number=n) for n in (1, 2)]
MIX, MEASURE = pb.MixOrder(deadline_s=30.0, neighbours=NEAR), pb.DistanceOrder(neighbours=NEAR)


def report(**more):
    given = {"number": 0, "refused": -1, "stepped_up": -1, "delivered": True, "upload_s": 0.5}
    return pb.DeviceReport(**(given | more))


def trained(*devices, **more):
    return pb.TrainReport(devices=[*devices, report(number=1)], **({"edge_s": 1.0} | more))


def apart(*pairs):
    return pb.DistanceReport(numbers=[n for n, _ in pairs], distances=[d for _, d in pairs])


def seats(*numbers, samples=10, peers=()):
    return pb.Answer(seats=[pb.Seat(number=n, samples=samples) for n in numbers], peers=peers)


RIGHT = [
    (seats(0, 1, peers=[1]), QUESTION),
    (seats(), QUESTION),
    (trained(report()), TRAIN),
    (trained(report(delivered=False, upload_s=0.0, refused=0)), TRAIN),
    (pb.MixReport(mix_s=1.0, apart=apart((1, 0.5), (2, 0.0))), MIX),
    (apart((2, 0.5)), MEASURE),
]
WRONG = {
    "a device of another server": (seats(2), QUESTION),
    "a device twice": (seats(0, 0), QUESTION),
    "a million seats": (seats(*range(10**6)), QUESTION),
    "no samples": (seats(0, samples=0), QUESTION),
    "too many samples": (seats(0, samples=2**60), QUESTION),
    "a peer that is none": (seats(0, peers=[4]), QUESTION),
    "a report on another device": (trained(report(number=2)), TRAIN),
    "a report twice": (trained(report(number=1)), TRAIN),
    "no report": (trained(), TRAIN),
    "round seconds NaN": (trained(report(), edge_s=math.nan), TRAIN),
    "round seconds of years": (trained(report(), edge_s=1e9), TRAIN),
    "delivered in infinity": (trained(report(), delivered_s=math.inf), TRAIN),
    "enforced before": (trained(report(), enforce_s=-1.0), TRAIN),
    "upload NaN": (trained(report(upload_s=math.nan)), TRAIN),
    "bytes": (trained(report(upload_bytes=2**63)), TRAIN),
    "reason": (trained(report(refused=99)), TRAIN),
    "codec": (trained(report(stepped_up=2**30)), TRAIN),
    "loss NaN": (trained(report(report=pb.Report(loss_sum=math.nan))), TRAIN),
    "joules": (trained(report(report=pb.Report(joules=math.inf))), TRAIN),
    "joules below": (trained(report(report=pb.Report(joules=-1.0))), TRAIN),
    "training NaN": (trained(report(report=pb.Report(train_s=math.nan))), TRAIN),
    "gossip NaN": (pb.MixReport(mix_s=math.nan), MIX),
    "gossip before": (pb.MixReport(mix_s=-1.0), MIX),
    "no distance": (pb.DistanceReport(numbers=[1]), MEASURE),
    "distance NaN": (apart((1, math.nan)), MEASURE),
    "distance below": (apart((1, -1.0)), MEASURE),
    "distance of gossip": (pb.MixReport(mix_s=1.0, apart=apart((1, math.inf))), MIX),
    "distance to itself": (apart((0, 1.0)), MEASURE),
    "distance to nobody": (apart((9, 1.0)), MEASURE),
    "distance twice": (apart((1, 1.0), (1, 2.0)), MEASURE),
}


@pytest.mark.parametrize("case", range(len(RIGHT)))
def test_answers_of_honest_edge_servers_are_taken(case):
    assert RULES.problem(*RIGHT[case], 0) is None


@pytest.mark.parametrize("case", WRONG)
def test_answers_that_cannot_be_are_named_in_a_line(case):
    line = RULES.problem(*WRONG[case], 0)
    assert line is not None
    assert line.isprintable()
    assert len(line) < 300


def planned(**more):
    device = {"number": 0, "local_steps": 2, "samples": 10}
    return pb.TrainOrder(deadline_s=30.0, devices=[pb.DeviceOrder(**(device | more))])


ORDERS = {
    "steps": planned(local_steps=10**6),
    "rate NaN": planned(rate_bps=math.nan),
    "frequency": planned(cpu_hz=-1.0),
    "power": planned(tx_power_w=math.inf),
    "samples": planned(samples=2**60),
    "another's device": planned(number=5),
    "deadline NaN": pb.TrainOrder(deadline_s=math.nan),
    "deadline infinite": pb.TrainOrder(deadline_s=math.inf),
    "no deadline": pb.TrainOrder(),
    "a device twice": pb.TrainOrder(deadline_s=1.0, devices=[pb.DeviceOrder(number=0)] * 2),
    "gossip steps": pb.MixOrder(deadline_s=1.0, steps=10**6),
    "gossip with itself": pb.MixOrder(deadline_s=1.0, neighbours=[pb.Neighbour(number=0)]),
    "gossip with nobody": pb.MixOrder(deadline_s=1.0, neighbours=[pb.Neighbour(number=7)]),
    "distance without label": pb.DistanceOrder(neighbours=[pb.Neighbour(number=1)]),
    "distance label": pb.DistanceOrder(neighbours=[pb.Neighbour(number=1)], labels=["../x"]),
    "a million peers": pb.Question(peers=[pb.Peer(number=1)] * 10**6),
}


@pytest.mark.parametrize("case", ORDERS)
def test_orders_of_a_coordinator_beyond_the_scenario_are_refused(case):
    limits = CoordinatorLimits.of(six(), 0)
    limits.check(planned())
    with pytest.raises(InputError, match=r"^edge 0: "):
        limits.check(ORDERS[case])


def test_an_edge_server_with_answers_that_cannot_be_is_left_out_and_the_run_goes_on(
    tmp_path, caplog, monkeypatch
):
    """Its first report claims years and a device of another server."""
    caplog.set_level(logging.INFO, "fedrt.devices")
    train, wrong = EdgeNode.train, []

    async def claiming(self, order):
        found = await train(self, order)
        if self.number == 1 and order.key.t == 0 and order.key.r == 0:
            wrong.append(order)
            found.edge_s = 1e12
            found.devices.append(pb.DeviceReport(number=0, delivered=True, upload_s=math.nan))
        return found

    monkeypatch.setattr(EdgeNode, "train", claiming)
    with running(tmp_path, six("rounds.global_rounds=2")) as fleet:
        fleet.start_all()
        fleet.coordinate()
    summary = read_run(tmp_path / "run").summary
    assert wrong
    assert summary["global_rounds"] == 2
    assert math.isfinite(summary["total_time_s"])
    assert "edge-1: an answer that cannot be: devices: must be those of the order" in caplog.text


def test_models_longer_than_the_runs_are_not_taken(tmp_path, caplog, monkeypatch):
    """One edge server announces 4 GiB to another and to the coordinator."""
    caplog.set_level(logging.INFO, "fedrt.devices")
    model = EdgeServices._model

    async def huge(self, run, label, context):
        if self.server.number == 1 and label.startswith("000000"):
            yield pb.Piece(head=pb.Payload(length=2**32, digest=bytes(32)))
            for _ in range(100):
                yield pb.Piece(chunk=bytes(2**20))
            return
        async for piece in model(self, run, label, context):
            yield piece

    monkeypatch.setattr(EdgeServices, "_model", huge)
    with running(tmp_path, six("rounds.global_rounds=2")) as fleet:
        fleet.start_all()
        fleet.coordinate()
    assert f"edge 1: a payload of {2**32} bytes: must be at most {2 * 2600 + 2**16}" in caplog.text
    assert f"edge-1: a payload of {2**32} bytes: must be at most {2600 + 2**16}" in caplog.text
    assert read_run(tmp_path / "run").summary["global_rounds"] == 2
