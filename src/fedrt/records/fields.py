"""The fields of a record of a global round: the type and the axes of every array."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from fedrt.rounds import RoundCost


class Kind(NamedTuple):
    """The type of an array and its axes: N devices, C edge servers, M metrics."""

    dtype: str
    axes: str


REAL, WHOLE, YES = ("float64", "int64", "bool")
BY_DEVICE, BY_EDGE, BY_PAIR = (Kind(REAL, axes) for axes in ("N", "C", "CC"))

SEEN = {
    "device": Kind(WHOLE, "N"),
    "edge_of_device": Kind(WHOLE, "N"),
    **dict.fromkeys(("cycles", "snr", "tx_power_w", "capacitance"), BY_DEVICE),
    **dict.fromkeys(("cpu_min_hz", "cpu_max_hz"), BY_DEVICE),
    "edge_bandwidth_hz": BY_EDGE,
    "model_bits": Kind(REAL, ""),
    **dict.fromkeys(("local_steps", "gossip_steps", "t", "r"), Kind(WHOLE, "")),
}
BACKHAUL = {
    "bps": BY_PAIR,
    "consensus_distance": BY_PAIR,
    "consensus_limit": Kind(REAL, ""),
}
CONTRACTION_LIMIT = {"contraction_limit": Kind(REAL, "")}
LATENCY = {"latency_s": Kind(REAL, "")}
LAWS = {
    **dict.fromkeys(("cn0_hz", "listen_s", "rx_power_w", "idle_power_w"), BY_DEVICE),
    **dict.fromkeys(("block_hz", "overhead_s", "header_factor"), Kind(REAL, "")),
    "power_control": Kind(YES, ""),
}
CPU = {"of_device": Kind(WHOLE, "N"), "first": Kind(WHOLE, "M")} | dict.fromkeys(
    ("s_per_cycle", "j_per_cycle"), Kind(REAL, "M")
)
CODED = dict.fromkeys(("gossip_bits", "buffer_bits"), Kind(REAL, "")) | {
    "gossip_codec": Kind("str", "")
}
PLAN = {
    "status": Kind("str", ""),
    "bandwidth_hz": BY_DEVICE,
    "cpu_hz": BY_DEVICE,
    "local_steps": Kind(WHOLE, "N"),
}
POWER = {"tx_power_w": BY_DEVICE}
TRAINS = {"trains": Kind(YES, "N")}
UPLOAD_CODEC = {"codec": Kind(WHOLE, "N")}
UPLOAD_BITS = {"upload_bits": BY_DEVICE}
LEAST_BITS = {"least_bits": BY_DEVICE}
MENU = {
    "names": Kind("str", ""),
    **dict.fromkeys(("bits", "distortion"), Kind(REAL, "M")),
    "limit": Kind(REAL, ""),
}
GOSSIP = {"links": Kind(YES, "CC"), "steps": Kind(WHOLE, "")}
WEIGHTS = {"weights": BY_PAIR}
CODEC = {"codec": Kind("str", "")}
HOW = dict.fromkeys(("relayed", "sampled"), Kind(YES, ""))
MORE_COST = dict.fromkeys(("download_s", "download_j", "idle_j"), BY_DEVICE)
"""What the paper's cost model does not have; left out where it is all zero."""
COST = {f.name: BY_DEVICE for f in fields(RoundCost) if f.name not in MORE_COST} | dict.fromkeys(
    ("edge_time_s", "backhaul_s"), BY_EDGE
)
OUTCOME = {
    "delivered": Kind(YES, "N"),
    "late": Kind(YES, "N"),
    "delivered_s": BY_EDGE,
    "measured": Kind(YES, ""),
}
REFUSED = {"refused": Kind(WHOLE, "N")}
ENFORCED = {"enforce_s": BY_EDGE}
METERED = {"metered": Kind(YES, "N")}
CLOCK = dict.fromkeys(("clock_s", "planned_overhead_s"), Kind(REAL, ""))
STEPPED = {"stepped_up": Kind(WHOLE, "N")}
FAILURES = {
    "silent": Kind(YES, "N"),
    "cpu_fraction": BY_DEVICE,
    **dict.fromkeys(("expected", "absent", "idle"), Kind(WHOLE, "C")),
    "server_up": Kind(YES, "C"),
    "links_down": Kind(WHOLE, ""),
}
DISTANCES = {"true": BY_PAIR}
COMPARED = {"compared": Kind(YES, "CC")}
METRICS = {"names": Kind("str", ""), "values": Kind(REAL, "M")}
