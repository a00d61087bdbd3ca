"""`tc`: a class of HTB for the address of each device, at the edge server's side.

What arrives for the server's port goes through a device of its own (ifb), on which HTB holds
every source address to its rate. Nothing else on the interface is touched, and devices need not
be trusted.

Systems join what they send and receive to packets of up to 64 kB, of which HTB lets the first and
the last through at once: uploads would end too early, by a third of a second at 1.5 Mbit/s. So
every class has a queue that splits them again into packets as they are on the wire.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import Any

from fedrt.devices.actuators.base import BandwidthActuator, UplinkShare
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.devices.actuators.netlink import ClassRate, HtbClasses
from fedrt.errors import FedrtError, reason

log = logging.getLogger(__name__)

NAME = "tc"
COMMAND_S = 20.0
BURST_S, LEAST_BURST = 0.001, 64
"""What a device that was idle may send at once, in seconds of its rate, and in bytes. Less would
lose time where the system wakes up late, more would let short uploads end too early."""
QUEUE_BYTES = 2**22
"""What may wait of a device: enough for TCP to keep the rate without losing any packet."""
SPLITS_BPS = 10**11
"""The rate of the queues that split packets: so great that it is never the limit."""
FRAME_BYTES = 18
"""The header of an Ethernet packet, with the number of a virtual network."""
LEAST_BPS = 8000.0
FIRST_CLASS = 16
FREE_CLASS, FREE_BPS = 1, 1e10
"""Of packets that only acknowledge: at an upload's rate they would hold up what is sent there."""
ACKNOWLEDGES = tuple(
    f"match u16 0 0xff80 at {length} match u8 0x10 0xff at {flags}"
    for length, flags in ((2, 33), (4, 53))
)
"""They have fewer than 128 bytes, and of TCP's flags only that of an acknowledgement; where a
packet says that, in IP of both versions. Short data have another flag too (PSH): they must not
overtake what was sent before them, or TCP takes that for lost, and sends all of it again."""
CLOSE = 0.01
"""A rate that is read back may differ by this part: the kernel counts whole bytes per second."""

Run = Callable[[Sequence[str], str], str]


class TrafficError(FedrtError):
    """A command of tc or ip failed."""


def run_command(words: Sequence[str], lines: str = "") -> str:
    """What a command prints, given lines to read."""
    try:
        done = subprocess.run(
            words, input=lines, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrafficError(f"{words[0]}: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise TrafficError(f"{' '.join(words)}: {said[0]}")
    return done.stdout


class TrafficControl(BandwidthActuator):
    """Rates of devices on the way to one edge server."""

    def __init__(
        self,
        interface: str,
        port: int,
        leftovers: Leftovers,
        run: Run = run_command,
        classes_on: Callable[[str], HtbClasses] = HtbClasses,
    ) -> None:
        self._interface, self._port, self._leftovers, self._run = interface, port, leftovers, run
        self._classes_on = classes_on
        self._classes: HtbClasses | None = None
        self._ifb = f"fedrt{port}"
        self._packet_bytes = 0
        """Of the longest packet on the wire; known once the interface has been looked at."""
        self._class_of: dict[str, int] = {}
        """The minor number of the class of every address; also the filter's priority."""
        self._rate_of: dict[int, UplinkShare] = {}
        self._is_torn, self._lock = False, Lock()
        """Whether a change has failed in the middle, so that nobody knows what is there."""

    @property
    def what(self) -> dict[str, Any]:
        """What is set up, as the file of leftovers keeps it."""
        return {"interface": self._interface, "port": self._port}

    def open(self) -> None:
        """Lead what arrives for the port through HTB; at first without any rate."""
        self._leftovers.note(NAME, self.what)
        clean_tc(self.what, self._run)
        self._close_classes()
        self._class_of.clear()
        ifb, interface = self._ifb, self._interface
        self._packet_bytes = FRAME_BYTES + self._mtu()
        self._run(["ip", "link", "add", ifb, "type", "ifb"], "")
        self._run(["ip", "link", "set", ifb, "up", "txqueuelen", "1000"], "")
        self._run(["tc", "qdisc", "add", "dev", ifb, "root", "handle", "1:", "htb"], "")
        if " ingress " not in self._run(["tc", "qdisc", "show", "dev", interface], ""):
            self._run(["tc", "qdisc", "add", "dev", interface, "handle", "ffff:", "ingress"], "")
        # Whether the system has all parts shows now, and not in the first round.
        lines = [self._class(2, LEAST_BPS), self._queue(2), f"class del dev {ifb} classid 1:2"]
        lines.append(self._class(FREE_CLASS, FREE_BPS))
        for place, (protocol, word) in enumerate((("ip", "ip"), ("ipv6", "ip6"))):
            lines.append(
                f"filter add dev {ifb} parent 1: protocol {protocol} prio {place + 1}"
                f" u32 {ACKNOWLEDGES[place]} flowid 1:{FREE_CLASS}"
            )
            lines.append(
                f"filter add dev {interface} parent ffff: protocol {protocol}"
                f" prio {_priority(self._port, place)} u32 match {word} dport {self._port} 0xffff"
                f" action mirred egress redirect dev {ifb}"
            )
        self._batch(lines)
        try:
            self._classes = self._classes_on(ifb)
        except OSError as error:
            raise TrafficError(f"{ifb}: the kernel does not answer: {reason(error)}") from None
        self._is_torn = False

    def _close_classes(self) -> None:
        if self._classes is not None:
            self._classes.close()
        self._classes = None

    def _mtu(self) -> int:
        said = self._run(["ip", "-o", "link", "show", "dev", self._interface], "")
        found = re.search(r" mtu ([0-9]+) ", said)
        if found is None:
            raise TrafficError(f"{self._interface}: its longest packet is not known")
        return int(found[1])

    def apply(self, shares: Sequence[UplinkShare]) -> None:
        """Set rates, and read them back; devices behind one address share the sum of theirs."""
        with self._lock:
            self._rate_of.clear()
            self._whole(shares)

    def is_quick(self, shares: Sequence[UplinkShare]) -> bool:
        known = set(self._class_of)
        addresses = {share.address for share in shares if share.address}
        return addresses == known and not self._is_torn and not self._lock.locked()

    def holds(self, share: UplinkShare) -> bool:
        return self._rate_of.get(share.device) == share

    def add(self, share: UplinkShare) -> None:
        with self._lock:
            if not self.holds(share):
                self._whole([share])

    def _whole(self, shares: Sequence[UplinkShare]) -> None:
        """Set rates; after a change that failed in the middle everything is made anew first."""
        if self._is_torn:
            self.open()
        if self._classes is None:
            return
        try:
            self._set(self._classes, shares)
        except (OSError, TrafficError) as error:
            self._is_torn = True
            self._rate_of.clear()
            if isinstance(error, TrafficError):
                raise
            raise TrafficError(f"{self._ifb}: rates cannot be set: {reason(error)}") from None

    def _set(self, classes: HtbClasses, shares: Sequence[UplinkShare]) -> None:
        self._rate_of.update({share.device: share for share in shares if share.address})
        wanted: defaultdict[str, float] = defaultdict(float)
        for share in self._rate_of.values():
            wanted[share.address] += max(share.rate_bps, LEAST_BPS)
        lines = [self._without(address) for address in self._class_of.keys() - wanted.keys()]
        known = {self._class_of[a]: self._rate(r) for a, r in wanted.items() if a in self._class_of}
        new = [address for address in wanted if address not in self._class_of]
        free = (n for n in range(FIRST_CLASS, 2**15) if n not in self._class_of.values())
        self._class_of.update(zip(new, free, strict=False))
        for address in new:
            minor = self._class_of[address]
            lines += [
                self._class(minor, wanted[address]),
                self._queue(minor),
                self._filter(address),
            ]
        if lines:
            self._batch(lines)
        classes.change(known)
        self._check(wanted)

    def _rate(self, rate_bps: float) -> ClassRate:
        burst = max(round(rate_bps * BURST_S / 8), LEAST_BURST)
        return ClassRate(rate_bps, burst, self._packet_bytes)

    def _class(self, minor: int, rate_bps: float) -> str:
        given = self._rate(rate_bps)
        rate, burst = round(given.rate_bps), given.burst_bytes
        return (
            f"class replace dev {self._ifb} parent 1: classid 1:{minor:x} htb"
            f" rate {rate}bit ceil {rate}bit burst {burst} cburst {burst}"
            f" quantum {given.quantum_bytes}"
        )

    def _queue(self, minor: int) -> str:
        return (
            f"qdisc add dev {self._ifb} parent 1:{minor:x} handle {minor:x}: tbf"
            f" rate {SPLITS_BPS}bit burst {self._packet_bytes} limit {QUEUE_BYTES}"
        )

    def _without(self, address: str) -> str:
        minor = self._class_of.pop(address)
        return (
            f"filter del dev {self._ifb} parent 1: prio {minor}\n"
            f"class del dev {self._ifb} classid 1:{minor:x}"
        )

    def _filter(self, address: str) -> str:
        minor, found = self._class_of[address], ip_address(address)
        protocol, word, bits = ("ipv6", "ip6", 128) if found.version == 6 else ("ip", "ip", 32)
        return (
            f"filter add dev {self._ifb} parent 1: protocol {protocol} prio {minor}"
            f" u32 match {word} src {address}/{bits} flowid 1:{minor:x}"
        )

    def _batch(self, lines: Sequence[str]) -> str:
        return self._run(["tc", "-batch", "-"], "\n".join(lines) + "\n")

    def rates_bps(self) -> dict[str, float]:
        """The rate of every address as the kernel has it."""
        minors = {} if self._classes is None else self._classes.rates_bps()
        return {a: minors[n] for a, n in self._class_of.items() if n in minors}

    def _check(self, wanted: Mapping[str, float]) -> None:
        """Hold the rates that were set against those that the kernel says there are."""
        found = self.rates_bps()
        for address, rate in wanted.items():
            if abs(found.get(address, 0.0) - rate) > CLOSE * rate:
                raise TrafficError(
                    f"the rate of {address} is {found.get(address, 0.0):g} bit/s: must be {rate:g}"
                )

    def undo(self) -> None:
        with self._lock:
            self._close_classes()
            self._is_torn = False
            if NAME in self._leftovers.read():
                try:
                    clean_tc(self.what, self._run)
                except TrafficError as error:
                    log.warning("tc: what was set up stays until the next start: %s", error)
                else:
                    self._leftovers.drop(NAME)


def clean_tc(what: Mapping[str, Any], run: Run = run_command) -> None:
    """Remove all that an edge server at a port has set up on an interface."""
    interface, port = str(what["interface"]), int(what["port"])

    def try_to(*words: str) -> str:
        try:
            return run(words, "")
        except TrafficError:
            return ""  # not there, or not any more

    for place in range(2):
        prio = str(_priority(port, place))
        try_to("tc", "filter", "del", "dev", interface, "parent", "ffff:", "prio", prio)
    if f"fedrt{port}:" in try_to("ip", "link", "show", f"fedrt{port}"):
        run(["ip", "link", "del", f"fedrt{port}"], "")
        # Another server on this interface may still need it.
        if not try_to("tc", "filter", "show", "dev", interface, "parent", "ffff:").strip():
            try_to("tc", "qdisc", "del", "dev", interface, "ingress")


def _priority(port: int, place: int) -> int:
    """The priority of a server's filter; one for each version of IP, and none shared by ports."""
    return (port % 2**15) * 2 + place or 2**16 - 1


def address_of(peer: str) -> str:
    """The address in what gRPC says of a peer, as ipv4:10.0.0.2:4711; empty if there is none."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    text = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    text = text.partition("%")[0]  # without the zone of an address that is only local
    try:
        found = ip_address(text)
    except ValueError:
        return ""
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
