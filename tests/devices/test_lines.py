"""What other parties send is one clean line in logs, whatever is in it."""

from __future__ import annotations

import json
import logging

import pytest

from fedrt.devices.common.logs import LOGGERS, WARNINGS_AT_ONCE, start_logs
from fedrt.devices.edge.rounds import OpenRound
from fedrt.devices.edge.uploads import LONGEST_WHY, note_failure
from fedrt.devices.wire import messages_pb2 as pb
from fedrt.devices.wire.party import difference
from fedrt.errors import LONGEST_LINE, one_line

EVIL = "no room\n12:00:00 edge-0: all is well\r\x1b[2J\x1b]0;x\x07\u202egnihton\x9b31m\u2028end"


@pytest.fixture
def logged(capsys):
    """Logs as a party does; what came of it."""
    before = {name: logging.getLogger(name) for name in LOGGERS}
    kept = {n: (g.handlers, g.propagate, g.level) for n, g in before.items()}

    def log(work, *, as_json):
        start_logs("device-0", as_json=as_json)
        work(logging.getLogger("fedrt.devices.test"))
        return capsys.readouterr().err

    yield log
    for name, (handlers, propagate, level) in kept.items():
        log_ = before[name]
        log_.handlers, log_.propagate = handlers, propagate
        log_.setLevel(level)


def clean(line):
    return line.isprintable()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_record_is_one_printable_line_of_limited_length(logged, as_json):
    text = logged(lambda log: log.warning("not counted: %s", EVIL * 10_000), as_json=as_json)
    (line,) = text.splitlines()
    assert clean(line)
    assert len(line) < LONGEST_LINE + 200
    assert "no room 12:00:00 edge-0: all is well" in line
    if as_json:
        assert json.loads(line)["message"].startswith("not counted: no room 12:00:00")


@pytest.mark.parametrize("as_json", [False, True])
def test_an_exception_cannot_begin_a_line_of_its_own(logged, as_json):
    def work(log):
        try:
            raise ValueError(EVIL)
        except ValueError:
            log.exception("global round 1")

    text = logged(work, as_json=as_json)
    first, *rest = text.splitlines()
    assert clean(first)
    assert all(line.startswith("  | ") and clean(line) for line in rest)
    assert "ValueError: no room" in text
    assert len(rest) == 0 if as_json else len(rest) > 3


def test_a_thousand_warnings_of_one_kind_are_enough(logged):
    def work(log):
        for number in range(3000):
            log.warning("refused: %d", number)
        log.warning("another kind")

    lines = logged(work, as_json=False).splitlines()
    assert WARNINGS_AT_ONCE < len(lines) < 3000
    assert lines[-1].endswith("another kind")


def test_why_a_device_failed_is_clean_before_it_is_reported():
    key = pb.Key(run="run")
    order = pb.TrainOrder(key=key, devices=[pb.DeviceOrder(number=3)])
    round_ = OpenRound(order, {3: None}, b"", {})
    note_failure(round_, 3, key, EVIL * 100)
    assert clean(round_.failures[3])
    assert len(round_.failures[3]) <= LONGEST_WHY


def test_versions_of_others_are_clean():
    line = difference(pb.Party(version="1.0"), pb.Party(version=EVIL * 100), "the device")
    assert line is not None
    assert clean(line)
    assert len(line) < 200


def test_one_line():
    assert one_line("  a\n b\tc ") == "a b c"
    assert one_line("x" * 50, 10) == "xxxxxxx..."
    assert one_line("\x1b[31m") == "\N{REPLACEMENT CHARACTER}[31m"
