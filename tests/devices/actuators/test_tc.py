"""HTB at the edge server's side, in a network namespace that the test makes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import uuid

import pytest
from support.children import LIMIT_S
from support.namespaces import namespace, runner

from fedrt.devices.actuators.base import UplinkShare
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.tc import TrafficControl, address_of, clean_tc

PORT = 7100


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.2:4711", "10.0.0.2"),
        ("ipv6:%5B::ffff:10.0.0.2%5D:4711", "10.0.0.2"),
        ("ipv6:[2001:db8::2]:4711", "2001:db8::2"),
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
    before = run(["tc", "qdisc"], ""), run(["ip", "-o", "link"], "")
    traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run)
    other = TrafficControl("uplink0", PORT + 1, Leftovers(tmp_path / "other"), run)
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
    assert (run(["tc", "qdisc"], ""), run(["ip", "-o", "link"], "")) == before
    assert not Leftovers(tmp_path).path.exists()


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


def test_packets_are_counted_as_they_are_on_the_wire(namespaces, tmp_path):
    """What the sender's system joins to packets of up to 64 kB is split again.

    What only acknowledges the five megabytes that come back is not among them.
    """
    run = runner(namespaces)
    device = f"fedrt-test-{uuid.uuid4().hex[:6]}"
    subprocess.run(["ip", "netns", "add", device], check=True)
    try:
        there = ["nsenter", f"--net=/run/netns/{device}"]
        run(["ip", "link", "set", "uplink1", "netns", device], "")
        run(["ip", "address", "add", "10.9.0.1/24", "dev", "uplink0"], "")
        for step in ("address add 10.9.0.2/24 dev uplink1", "link set uplink1 up"):
            subprocess.run([*there, "ip", *step.split()], check=True)
        traffic = TrafficControl("uplink0", PORT, Leftovers(tmp_path), run)
        traffic.open()
        traffic.apply([UplinkShare(0, 5e7, "10.9.0.2")])
        receiver = [*namespaces, sys.executable, "-c", RECEIVER]
        with subprocess.Popen(receiver, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "listens\n"
            subprocess.run([*there, sys.executable, "-c", SENDER], check=True, timeout=LIMIT_S)
        said = run(["tc", "-s", "class", "show", "dev", f"fedrt{PORT}"], "")
        found = re.findall(r"class htb (\S+) .*?Sent (\d+).*?lended: (\d+)", said, re.DOTALL)
        counts = {name: (int(length), int(packets)) for name, length, packets in found}
        length, packets = counts["1:10"]
        assert 500_000 < length < 550_000
        assert length / packets <= 1514
        free_length, free_packets = counts["1:1"]
        assert 0 < free_length <= 128 * free_packets
        traffic.undo()
    finally:
        subprocess.run(["ip", "netns", "del", device], check=True)


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
    before = run(["tc", "qdisc"], ""), run(["ip", "-o", "link"], "")
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
    assert (run(["tc", "qdisc"], ""), run(["ip", "-o", "link"], "")) == before
    assert not Leftovers(tmp_path).path.exists()
