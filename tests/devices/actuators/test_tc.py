"""HTB at the edge server's side, in a network namespace that the test makes."""

from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
import textwrap
import uuid
from types import SimpleNamespace

import pytest
from support.children import LIMIT_S
from support.namespaces import classes_in, namespace, runner, shapes

from fedrt.devices.actuators.base import UplinkShare
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.netlink import ERROR, HEADER, ClassRate, HtbClasses
from fedrt.devices.actuators.tc import TrafficControl, TrafficError, address_of, clean_tc

PORT = 7100


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.2:4711", "10.0.0.2"),
        ("ipv6:%5B::ffff:10.0.0.2%5D:4711", "10.0.0.2"),
        ("ipv6:[2001:db8::2]:4711", "2001:db8::2"),
        ("ipv6:%5Bfe80::1%252%5D:4711", "fe80::1"),
        ("unix:/tmp/socket", ""),
        ("ipv4:who:1", ""),
    ],
)
def test_addresses_of_peers(peer, address):
    assert address_of(peer) == address


@pytest.fixture
def namespaces():
    with namespace() as inside:
        yield inside


def test_rates_are_set_read_back_and_undone(namespaces, tmp_path):
    run = runner(namespaces)
    before = shapes(run)
    inside = run, classes_in(namespaces)
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), *inside)
    other = TrafficControl("uplink0", PORT + 1, Leftovers(tmp_path / "other"), *inside)
    traffic.open()
    other.open()
    traffic.apply([UplinkShare(0, 1_234_567.0, "10.0.0.2"), UplinkShare(1, 5e6, "2001:db8::2")])
    assert traffic.rates_bps() == pytest.approx({"10.0.0.2": 1234567, "2001:db8::2": 5e6}, rel=1e-3)
    traffic.add(UplinkShare(2, 1e6, "10.0.0.2"))  # behind the same address: the sum
    assert traffic.rates_bps()["10.0.0.2"] == pytest.approx(2234567, rel=1e-3)
    traffic.apply([UplinkShare(0, 3e5, "10.0.0.9")])
    assert traffic.rates_bps() == pytest.approx({"10.0.0.9": 3e5}, rel=1e-3)
    traffic.undo()
    traffic.undo()
    assert f"fedrt{PORT + 1}" in run(["ip", "-o", "link"], "")
    assert " ingress " in run(["tc", "qdisc"], "")
    other.undo()
    assert shapes(run) == before
    assert not Leftovers(tmp_path).path.exists()


@pytest.mark.parametrize("rate_bps", [8e3, 1_234_567.0, 3_333_333.0, 7.7e7, 4e10])
def test_the_kernel_is_told_what_tc_would_tell_it(namespaces, tmp_path, rate_bps):
    """A class that `tc` makes at a rate and one that is changed to it look the same to `tc`."""
    run = runner(namespaces)
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
    traffic.open()

    def shown():
        return run(["tc", "-d", "class", "show", "dev", f"fedrt{PORT}", "classid", "1:10"], "")

    traffic.apply([UplinkShare(0, rate_bps, "10.0.0.2")])
    made = shown()
    traffic.apply([UplinkShare(0, 3e6, "10.0.0.2")])
    other = shown()
    traffic.apply([UplinkShare(0, rate_bps, "10.0.0.2")])
    assert "rate 3Mbit ceil 3Mbit" in other
    assert shown() == made
    traffic.undo()


def test_many_rates_are_set_at_once(namespaces, tmp_path):
    run = runner(namespaces)
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
    traffic.open()
    for factor in (1.0, 2.0):
        wanted = {f"10.0.{n // 200}.{n % 200 + 2}": factor * (1e6 + n) for n in range(400)}
        rates = enumerate(wanted.items())
        traffic.apply([UplinkShare(n, rate, address) for n, (address, rate) in rates])
        assert traffic.rates_bps() == pytest.approx(wanted, rel=1e-4)
    traffic.undo()


def test_a_class_that_is_gone_is_said(namespaces, tmp_path):
    run = runner(namespaces)
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
    traffic.open()
    traffic.apply([UplinkShare(0, 1e6, "10.0.0.2")])
    run(["ip", "link", "del", f"fedrt{PORT}"], "")
    with pytest.raises(TrafficError, match=f"fedrt{PORT}: rates cannot be set: .*device"):
        traffic.apply([UplinkShare(0, 2e6, "10.0.0.2")])
    traffic.undo()


@pytest.mark.parametrize("made", [0, 1, 2, 3])
def test_after_a_change_that_fails_in_the_middle_all_is_made_anew(namespaces, tmp_path, made):
    """Of the three lines for a new device so many are carried out before tc fails."""
    inside, fails = runner(namespaces), []

    def run(words, lines):
        if fails and "10.0.0.2" in lines:
            inside(words, "".join(lines.splitlines(keepends=True)[:made]))
            raise TrafficError(fails.pop())
        return inside(words, lines)

    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
    traffic.open()
    traffic.apply([UplinkShare(1, 1e6, "10.0.0.3")])
    fails.append("no memory")
    shares = [UplinkShare(0, 2e6, "10.0.0.2"), UplinkShare(1, 3e6, "10.0.0.3")]
    with pytest.raises(TrafficError, match="no memory"):
        traffic.apply(shares)
    assert not traffic.is_quick([shares[1]])
    for share in shares:
        assert not traffic.holds(share)
        traffic.add(share)  # as before the order of each device leaves
    assert traffic.rates_bps() == pytest.approx({"10.0.0.2": 2e6, "10.0.0.3": 3e6}, rel=1e-3)
    assert traffic.is_quick(shares)
    assert not traffic.is_quick(shares[:1])  # a class has to go
    assert not traffic.is_quick([*shares, UplinkShare(2, 3e6, "10.0.0.4")])
    traffic.undo()


def test_a_class_that_is_gone_is_made_again(namespaces, tmp_path):
    run, share = runner(namespaces), UplinkShare(0, 2e6, "10.0.0.2")
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
    traffic.open()
    traffic.apply([share])
    run(["tc", "qdisc", "del", "dev", f"fedrt{PORT}", "root"], "")
    with pytest.raises(TrafficError, match="rates cannot be set"):
        traffic.apply([share])
    traffic.apply([share])
    assert traffic.rates_bps() == pytest.approx({"10.0.0.2": 2e6}, rel=1e-3)
    traffic.undo()


def test_late_answers_to_earlier_messages_are_left_out():
    """An answer to message 1, whose time was up, comes before the one to message 2."""

    def answer(number, error):
        body = struct.pack("=i", -error)
        return HEADER.pack(HEADER.size + len(body), ERROR, 0, number, 0) + body

    classes = object.__new__(HtbClasses)
    answers = iter([answer(1, 5), answer(2, 0)])
    classes._index, classes._number = 7, 1
    classes._socket = SimpleNamespace(send=lambda data: None, recv=lambda size: next(answers))
    classes.change({16: ClassRate(1e6, 125, 1518)})
    answers = iter([answer(3, 2)])
    with pytest.raises(OSError, match="No such file"):
        classes.change({16: ClassRate(1e6, 125, 1518)})


RECEIVER = textwrap.dedent("""
    import socket, sys
    with socket.create_server(("10.9.0.1", 7100)) as server:
        print("listens", flush=True)
        with server.accept()[0] as stream:
            while stream.recv(2**16):
                pass
            stream.sendall(bytes(5_000_000))
""")
SENDER = textwrap.dedent("""
    import socket
    with socket.create_connection(("10.9.0.1", 7100)) as stream:
        stream.sendall(bytes(500_000))
        stream.shutdown(socket.SHUT_WR)
        assert sum(iter(lambda: len(stream.recv(2**20)), 0)) == 5_000_000
""")


SHORT = SENDER.replace(
    "stream.sendall(bytes(500_000))",
    "stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
    "    for _ in range(300): stream.sendall(bytes(10))",
)


def sent(namespaces, tmp_path, sender):
    """For each class of a server, the bytes and packets of a device that has sent something."""
    run = runner(namespaces)
    device = f"fedrt-test-{uuid.uuid4().hex[:6]}"
    subprocess.run(["ip", "netns", "add", device], check=True)
    try:
        there = ["nsenter", f"--net=/run/netns/{device}"]
        run(["ip", "link", "set", "uplink1", "netns", device], "")
        run(["ip", "address", "add", "10.9.0.1/24", "dev", "uplink0"], "")
        for step in ("address add 10.9.0.2/24 dev uplink1", "link set uplink1 up"):
            subprocess.run([*there, "ip", *step.split()], check=True)
        traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run, classes_in(namespaces))
        traffic.open()
        traffic.apply([UplinkShare(0, 5e7, "10.9.0.2")])
        receiver = [*namespaces, sys.executable, "-c", RECEIVER]
        with subprocess.Popen(receiver, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "listens\n"
            subprocess.run([*there, sys.executable, "-c", sender], check=True, timeout=LIMIT_S)
        said = run(["tc", "-s", "class", "show", "dev", f"fedrt{PORT}"], "")
        found = re.findall(r"class htb (\S+) .*?Sent (\d+).*?lended: (\d+)", said, re.DOTALL)
        traffic.undo()
    finally:
        subprocess.run(["ip", "netns", "del", device], check=True)
    return {name: (int(length), int(packets)) for name, length, packets in found}


def test_packets_are_counted_as_they_are_on_the_wire(namespaces, tmp_path):
    """What the sender's system joins to packets of up to 64 kB is split again.

    What only acknowledges the five megabytes that come back is not among them.
    """
    counts = sent(namespaces, tmp_path, SENDER)
    length, packets = counts["1:10"]
    assert 500_000 < length < 550_000
    assert length / packets <= 1514
    free_length, free_packets = counts["1:1"]
    assert 0 < free_length <= 128 * free_packets


def test_short_data_do_not_overtake_long_ones(namespaces, tmp_path):
    """300 pieces of 10 bytes, in packets as short as acknowledgements, are held to the rate."""
    counts = sent(namespaces, tmp_path, SHORT)
    assert counts["1:10"][0] > 300 * 10


CHILD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from fedrt.devices.actuators.base import UplinkShare
    from fedrt.devices.actuators.leftovers import Leftovers
    from fedrt.devices.actuators.tc import TrafficControl
    traffic = TrafficControl("uplink0", 7100, Leftovers(Path(sys.argv[1])))
    traffic.open()
    traffic.apply([UplinkShare(0, 1e6, "10.0.0.2")])
    print("up", flush=True)
    time.sleep(600)
""")


def test_what_a_killed_server_left_is_undone_at_the_next_start(namespaces, tmp_path):
    run = runner(namespaces)
    before = shapes(run)
    child = subprocess.Popen(
        [*namespaces, sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "up\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert "htb" in run(["tc", "qdisc"], "")
    Leftovers(tmp_path).undo({"tc": lambda what: clean_tc(what, run)})
    assert shapes(run) == before
    assert not Leftovers(tmp_path).path.exists()
