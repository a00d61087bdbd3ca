"""What an agent of the environment sees: vectors of numbers from -10 to 10."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.control.allocation.shares import even_split_hz
from fedrt.cost.backhaul import link_time_s
from fedrt.cost.compute import compute_time_s, training_energy_j
from fedrt.cost.uplink import seconds_to_send, upload_energy_j
from fedrt.graph import links_of
from fedrt.runs.episode import Episode

FloatArray = NDArray[np.float64]

MOST = 10.0
OF_DEVICE = (
    "takes part",
    "log10 of its upload's seconds over an even share",
    "log10 of its computing's seconds at the highest frequency",
    "log10 of its computing's seconds at the lowest frequency",
    "share of its budget that is left",
    "log10 of its allowance over the energy at the highest frequency and an even share",
)
"""The numbers of each device in the full view; all 0 for one that does not take part."""
OF_EDGE = ("log10 of its bandwidth in MHz", "its time since the global round began, over the mean")
OF_RUN = ("share of the run", "share of the global round", "whether links are chosen")
SMALL = (
    *OF_RUN,
    "mean of the devices' log10 upload seconds",
    "its deviation",
    "mean of the devices' log10 computing seconds at the highest frequency",
    "least share of a budget that is left",
    "mean log10 of allowances over energies at the highest frequency",
)
"""The numbers of the small view."""


def size_of(devices: int, edges: int, links: int, kind: str) -> int:
    """The length of a view."""
    if kind == "small":
        return len(SMALL)
    return len(OF_DEVICE) * devices + len(OF_EDGE) * edges + links + len(OF_RUN)


def view_of(episode: Episode, kind: str) -> NDArray[np.float32]:
    """What is seen of an episode."""
    full = _small(episode) if kind == "small" else _full(episode)
    return np.clip(np.nan_to_num(full, posinf=MOST, neginf=-MOST), -MOST, MOST).astype(np.float32)


def _run(episode: Episode) -> list[float]:
    ledger = episode.ledger
    last = 0.0 if episode.seen.backhaul is None else 1.0
    return [ledger.t / ledger.global_rounds, ledger.r / ledger.edge_rounds, last]


def _devices(episode: Episode) -> FloatArray:
    """One row for each device that takes part, with the numbers of `OF_DEVICE`."""
    seen, ledger = episode.seen, episode.ledger
    upload_s = seconds_to_send(seen, seen.upload_bits, even_split_hz(seen))
    energy_j = training_energy_j(seen, seen.cycles, seen.cpu_max_hz)
    energy_j = energy_j + upload_energy_j(upload_s, seen.tx_power_w)
    budget_j = ledger.budget_j[seen.device]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(np.isfinite(budget_j), ledger.left_j[seen.device] / budget_j, 1.0)
        allowance_j = np.maximum(ledger.allowance_j("exact")[seen.device], 0.0)
        return np.stack(
            [
                np.ones(seen.num_devices),
                np.log10(upload_s),
                np.log10(compute_time_s(seen.cycles, seen.cpu_max_hz)),
                np.log10(compute_time_s(seen.cycles, seen.cpu_min_hz)),
                left,
                np.log10(allowance_j / energy_j),
            ],
            axis=1,
        )


def _full(episode: Episode) -> FloatArray:
    seen, world = episode.seen, episode.world
    devices = np.zeros((world.fleet.num_devices, len(OF_DEVICE)))
    devices[seen.device] = _devices(episode)
    elapsed_s = episode.ledger.elapsed_s
    edges = np.stack(
        [np.log10(seen.edge_bandwidth_hz / 1e6), elapsed_s / max(elapsed_s.mean(), 1e-300)], axis=1
    )
    rows, cols = links_of(world.base_graph)
    links = np.zeros(len(rows))
    if seen.backhaul is not None:
        step_s = link_time_s(seen.gossip_bits, 1, seen.backhaul.bps, seen.backhaul.latency_s)
        links = np.log10(step_s[rows, cols])
    return np.concatenate([devices.ravel(), edges.ravel(), links, _run(episode)])


def _small(episode: Episode) -> FloatArray:
    devices = _devices(episode)
    if not len(devices):
        return np.array([*_run(episode), *[0.0] * (len(SMALL) - len(OF_RUN))])
    finite = np.clip(np.nan_to_num(devices, posinf=MOST, neginf=-MOST), -MOST, MOST)
    upload, compute, left, allowed = finite[:, 1], finite[:, 2], finite[:, 4], finite[:, 5]
    more = [upload.mean(), upload.std(), compute.mean(), left.min(), allowed.mean()]
    return np.array([*_run(episode), *more])
