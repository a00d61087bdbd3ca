"""The network of a testbed: a namespace for every party, and one for the switch between them.

Nothing of it touches the machine's own network: all links are between namespaces of the testbed,
and go with them. What edge servers send each other is held to the scenario's link speeds at the
switch; the uploads of devices are held to their rates by the edge servers' own `tc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_interface

import numpy as np
from numpy.typing import NDArray

from fedrt.devices.actuators.tc import (
    ACKNOWLEDGES,
    BURST_S,
    FRAME_BYTES,
    FREE_BPS,
    FREE_CLASS,
    LEAST_BURST,
    QUEUE_BYTES,
    SPLITS_BPS,
    TrafficError,
    run_command,
)
from fedrt.testbed.commands import inside
from fedrt.testbed.layout import NETWORK_BITS, Host, Layout

FloatArray = NDArray[np.float64]
Run = Callable[[Sequence[str], str], str]

LEAST_BPS = 8000.0
"""The speed of a link that the scenario has at 0 in a round."""
FIRST_CLASS = 16
"""The number of the class of the first edge server."""
PACKET_BYTES = FRAME_BYTES + 1500
TCP = "cubic"
"""How TCP finds its rate: as Linux does by default, whatever this machine has chosen."""


def port_of(host: Host) -> str:
    """The switch's interface to a host."""
    return f"p-{host.name}"


class Network:
    """Namespaces, links and link speeds of one testbed."""

    def __init__(self, layout: Layout, round_trip_s: float = 0.0, run: Run = run_command) -> None:
        self.layout, self.round_trip_s, self._run = layout, round_trip_s, run
        self.missing: list[str] = []
        """What this machine cannot emulate, in words."""

    def up(self) -> None:
        """Make all of it; at first without any limit on link speeds."""
        layout, run = self.layout, self._run
        for name in layout.namespaces:
            run(["ip", "netns", "add", name], "")
        switch = ["link add br0 type bridge", "link set br0 up"]
        for host in layout.hosts:
            port = port_of(host)
            switch.append(f"link add {port} type veth peer name eth0 netns {host.namespace}")
            switch.append(f"link set {port} master br0 up")
        self._ip(layout.switch, switch)
        for host in layout.hosts:
            lines = [
                "link set lo up",
                "link set eth0 up",
                f"addr add {host.address}/{NETWORK_BITS} dev eth0",
            ]
            self._ip(host.namespace, [*lines, *self._closed(host)])
            self._set_tcp(host)
        self._open_shapes()

    def _set_tcp(self, host: Host) -> None:
        """Have TCP find its rate as on most machines, whatever this one has chosen."""
        network = ip_interface(f"{host.address}/{NETWORK_BITS}").network
        route = f"route change {network} dev eth0 proto kernel scope link src {host.address}"
        try:
            self._ip(host.namespace, [f"{route} congctl {TCP}"])
        except TrafficError:
            line = f"{TCP} is not in this kernel: TCP finds its rate as this machine does"
            self.missing += [] if line in self.missing else [line]

    def _closed(self, host: Host) -> list[str]:
        """Routes that say at once that there is no link, to servers that this one has none to."""
        if host.role != "edge":
            return []
        others = self.layout.of("edge")
        unlinked = [each for each in others if not self.layout.links[host.number, each.number]]
        return [f"route add unreachable {e.address}/32" for e in unlinked if e is not host]

    def _open_shapes(self) -> None:
        """On the way to every edge server, a class for each server that it has a link to."""
        edges = self.layout.of("edge")
        delay = self._delay()
        lines = []
        for host in self.layout.hosts:
            if host.role != "edge":
                if delay:
                    lines.append(f"qdisc add dev {port_of(host)} root {delay}")
                continue
            lines.append(f"qdisc add dev {port_of(host)} root handle 1: htb")
            # What only acknowledges does not wait behind data that go the same way.
            lines.append(
                f"filter add dev {port_of(host)} parent 1: protocol ip prio 1"
                f" u32 {ACKNOWLEDGES[0]} flowid 1:{FREE_CLASS:x}"
            )
            lines.append(
                f"class add dev {port_of(host)} parent 1: classid 1:{FREE_CLASS:x} htb"
                f" rate {FREE_BPS:.0f}bit quantum 1514"
            )
            for other in edges:
                if other is host or not self.layout.links[host.number, other.number]:
                    continue
                minor = FIRST_CLASS + other.number
                lines.append(_class(host, other, FREE_BPS))
                # Large packets, which would pass a slow link in one piece, are split again here.
                lines.append(
                    f"qdisc add dev {port_of(host)} parent 1:{minor:x} handle {minor:x}: tbf"
                    f" rate {SPLITS_BPS}bit burst {PACKET_BYTES} limit {QUEUE_BYTES}"
                )
                if delay:
                    lines.append(f"qdisc add dev {port_of(host)} parent {minor:x}:1 {delay}")
                lines.append(
                    f"filter add dev {port_of(host)} parent 1: protocol ip prio 2"
                    f" u32 match ip src {other.address}/32 flowid 1:{minor:x}"
                )
        self._tc(lines)

    def _delay(self) -> str:
        """The words of tc for half a round trip; nothing where there is none, or no netem."""
        if self.round_trip_s <= 0:
            return ""
        words = f"netem delay {round(self.round_trip_s / 2 * 1e6)}us limit 10000"
        probe = port_of(self.layout.hosts[0])
        try:
            self._tc([f"qdisc add dev {probe} root {words}", f"qdisc del dev {probe} root"])
        except TrafficError:
            self.missing.append("netem is not in this kernel: round trips take no time here")
            return ""
        return words

    def shape(self, bps: FloatArray) -> None:
        """Hold what edge servers send each other to the link speeds of a global round."""
        edges, links = self.layout.of("edge"), self.layout.links
        self._tc(
            [
                _class(to, other, float(bps[other.number, to.number]))
                for to in edges
                for other in edges
                if to is not other and links[to.number, other.number]
            ]
        )

    def down(self) -> None:
        """Remove all of it; what is not there does no harm."""
        for name in self.layout.namespaces:
            remove_namespace(name, self._run)

    def _ip(self, namespace: str, lines: Sequence[str]) -> None:
        self._run(["ip", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")

    def _tc(self, lines: Sequence[str]) -> None:
        if lines:
            words = [*inside(self.layout.switch), "tc", "-batch", "-"]
            self._run(words, "\n".join(lines) + "\n")


def _class(to: Host, source: Host, bps: float) -> str:
    """The words of tc that set the speed from one edge server to another."""
    rate = round(max(bps, LEAST_BPS))
    burst = max(round(rate * BURST_S / 8), LEAST_BURST)
    return (
        f"class replace dev {port_of(to)} parent 1: classid 1:{FIRST_CLASS + source.number:x}"
        f" htb rate {rate}bit ceil {rate}bit burst {burst} cburst {burst} quantum 1514"
    )


def namespaces_there(run: Run = run_command) -> set[str]:
    """The names of the machine's namespaces."""
    lines = run(["ip", "netns", "list"], "").splitlines()
    return {line.split()[0] for line in lines if line.strip()}


def remove_namespace(name: str, run: Run = run_command) -> None:
    """Remove a namespace, with all links that end in it; one that is gone does no harm."""
    if name in namespaces_there(run):
        run(["ip", "netns", "del", name], "")


def pids_in(name: str, run: Run = run_command) -> list[int]:
    """The processes in a namespace."""
    return [int(word) for word in run(["ip", "netns", "pids", name], "").split()]
