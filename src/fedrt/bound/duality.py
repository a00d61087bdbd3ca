"""A lower bound on the time of a whole run with the future known, by Lagrangian duality.

The problem. Over all edge rounds at once, choose frequencies f, upload times u (bandwidth k/u) and,
for every global round, the links and gossip steps, so as to

    minimise    the sum over global rounds t of T_t
    subject to  W_n / f_n + u_n <= tau_c                 every device of cluster c, every edge round
                sum of k_n / u_n <= b_c                  every cluster, every edge round
                sum over r of tau_c + beta_c <= T_t      every server, every global round
                sum over the run of p_n u_n + a_n f_n^2 <= E_n       every device, a = alpha W / 2
                f_min <= f <= f_max

where beta_c is the backhaul time of server c under the links and gossip steps of the round, which
must be connected and keep the consensus limit and the contraction limit.

The bound. Give a price to every constraint: lambda_n seconds per joule, s_c to the third row
(they add up to one in each round, or T_t could fall for ever), nu_n to the first (they add up to
s_c in each edge round, for the same reason with tau), mu to the second. For any prices >= 0 the
least of the Lagrangian is no more than the least time. What is left to minimise falls apart:

    over f    phi_n = min of lambda a f^2 + nu W / f, at f^3 = nu W / (2 lambda a) clipped to range
    over u    2 sqrt((lambda p + nu) mu k), and the best mu makes the cluster's sum Q^2 / b_c,
              Q = sum over its devices of sqrt((lambda p + nu) k)
    over links and gossip steps    min of sum over c of s_c beta_c

so every (lambda, nu) certifies the bound

    sum over t [ sum over (r, c, n) phi_n + sum over (r, c) Q^2 / b_c + min sum_c s_c beta_c ]
        - sum over n of lambda_n E_n .

That last minimum may come first: for each choice of links its own s and nu, then the least over
the choices. That is the greater bound and the one computed; `link_choices` says which
choices there are. For given lambda the best nu are found by a compiled search; lambda by
`joule_prices`, the joules spent less the budget being the slope. How well either does decides how
tight the bound is, never whether it holds.

Codecs. Where each upload also chooses a codec m, of B_m bits and distortion d_m, and the mean
distortion of an edge round may be no more than D, that constraint has a price theta per device's
distortion, and what is left to minimise over u and m is, with z = sqrt(mu) and kappa_n the
hertz-seconds of a bit,

    sum over n of min over m of (2 z sqrt((lambda p + nu) kappa_n B_m) + theta d_m) - z^2 b_c

less theta N D for the edge round. It is concave in z, and any z >= 0 gives a bound. For given
prices of time and energy a device changes from codec to codec as its nu grows, and at the change
it mixes both: what counts is the mean root of its bits.

All constraints but the choices of links and codecs are convex, so the bound is as good as the
best one could do if a round could be split between such choices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrt.world.observation import Menu

if TYPE_CHECKING:
    from fedrt.bound.kernel import PricedRun

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


HALVINGS = 100


@dataclass(frozen=True)
class WholeRun:
    """All edge rounds of a run as arrays, one row per cluster and edge round.

    Row (t R + r) C + c is cluster c in edge round r of global round t.
    """

    first: IntArray
    """The first device of each row, and the number of devices at the end."""
    device: IntArray
    """The number of each device in the fleet."""
    k: FloatArray
    """Hz s of each upload."""
    bandwidth_hz: FloatArray
    """Of each part."""
    global_rounds: int
    edge_rounds: int
    num_edges: int
    cycles: FloatArray
    joules_per_hz2: FloatArray
    """a = alpha W / 2, per device."""
    tx_power_w: FloatArray
    cpu_min_hz: FloatArray
    cpu_max_hz: FloatArray
    menu: Menu | None = None
    """The codecs that every upload may choose from; None: none is chosen."""
    bit_hz_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Hz s of a bit of each upload, where there is a menu."""

    @property
    def num_devices(self) -> int:
        return len(self.cycles)


@dataclass(frozen=True)
class LinkTimes:
    """The backhaul times each global round can choose from: rows first[t]:first[t + 1]."""

    first: IntArray
    backhaul_s: FloatArray
    """One row per choice, with the backhaul time of each server."""


@dataclass
class DualPrices:
    """The dual prices of a run, and the state of the search for them."""

    joule_s: FloatArray
    """lambda, seconds per joule, per device."""
    share: FloatArray
    """s, per global round and server."""
    second: FloatArray
    """nu, per device and edge round, in the order of `WholeRun.device`."""
    chosen: IntArray
    """For each global round, the chosen row of `LinkTimes`."""
    state: FloatArray
    """The state of the compiled search, for each row of `WholeRun`."""
    distortion_s: FloatArray
    """theta, seconds for the distortion of one device, per edge round; 0 without a menu."""

    @staticmethod
    def even(run: WholeRun) -> DualPrices:
        """Prices to start from: equal shares of time, energy priced for a medium frequency."""
        servers, parts = run.num_edges, len(run.bandwidth_hz)
        per_edge_round = len(run.device) / max(1, run.global_rounds * run.edge_rounds)
        middle_hz = (run.cpu_min_hz + run.cpu_max_hz) / 2
        price = run.cycles / (2 * run.joules_per_hz2 * middle_hz**3) / per_edge_round
        return DualPrices(
            joule_s=price,
            share=np.full((run.global_rounds, servers), 1.0 / servers),
            second=np.zeros(len(run.device)),
            chosen=np.zeros(run.global_rounds, dtype=np.int64),
            state=np.zeros((parts, 2)),
            distortion_s=np.zeros(run.global_rounds * run.edge_rounds),
        )


def device_columns(run: WholeRun, joule_s: FloatArray) -> FloatArray:
    """For each device, the constants that the search needs at the given energy prices.

    Seconds of computing at f_min and f_max, the price of a second of sending, the nu up to which
    f_min and from which f_max is best, cube with W / f = cube / nu^(1/3) between, and the price
    of the joules of computing at f_min and f_max.
    """
    w, a = run.cycles, run.joules_per_hz2
    return np.stack(
        [
            w / run.cpu_min_hz,
            w / run.cpu_max_hz,
            joule_s * run.tx_power_w,
            2 * joule_s * a * run.cpu_min_hz**3 / w,
            2 * joule_s * a * run.cpu_max_hz**3 / w,
            np.cbrt(2 * joule_s * a * w**2),
            joule_s * a * run.cpu_min_hz**2,
            joule_s * a * run.cpu_max_hz**2,
        ]
    )


def frequencies_hz(run: WholeRun, prices: DualPrices) -> FloatArray:
    """The CPU frequency that each device chooses in each edge round at the given prices."""
    n = run.device
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cubed = prices.second * run.cycles[n] / (2 * prices.joule_s[n] * run.joules_per_hz2[n])
    cubed = np.where(prices.joule_s[n] > 0, cubed, np.inf)
    return np.clip(np.cbrt(cubed), run.cpu_min_hz[n], run.cpu_max_hz[n])


def certified_s(
    run: WholeRun, prices: DualPrices, backhaul_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """For each global round the bound's terms in seconds; for each device the joules behind them.

    `backhaul_s` has one row per round. Plain and independent of any search: whatever the prices,
    no plan with these backhaul times is quicker than the sum of the first less the priced budgets.
    """
    n, part = run.device, np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
    cpu_hz, joule_s = frequencies_hz(run, prices), prices.joule_s[n]
    sending = joule_s * run.tx_power_w[n] + prices.second
    compute_j = run.joules_per_hz2[n] * cpu_hz**2
    phi = joule_s * compute_j + prices.second * run.cycles[n] / cpu_hz
    whole = np.bincount(part, np.sqrt(sending * run.k), minlength=len(run.bandwidth_hz))
    upload_price = whole**2 / run.bandwidth_hz
    if run.menu is not None:
        upload_price = _least_over_codecs(run, prices, sending, part)
    by_part = np.bincount(part, phi, minlength=len(whole)) + upload_price
    value_s = by_part.reshape(run.global_rounds, -1).sum(axis=1)
    value_s = value_s + (prices.share * backhaul_s).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        upload_s = (whole / run.bandwidth_hz)[part] * np.sqrt(run.k / sending)
        upload_j = np.where(run.tx_power_w[n] > 0, run.tx_power_w[n] * upload_s, 0.0)
    energy_j = np.bincount(n, compute_j + upload_j, minlength=run.num_devices)
    return value_s, energy_j.astype(np.float64, copy=False)


def uploads_s(run: WholeRun, prices: DualPrices) -> FloatArray:
    """The seconds of every upload at the given prices; inf where they cost nothing."""
    n, part = run.device, np.repeat(np.arange(len(run.bandwidth_hz)), np.diff(run.first))
    sending = prices.joule_s[n] * run.tx_power_w[n] + prices.second
    whole = np.bincount(part, np.sqrt(sending * run.k), minlength=len(run.bandwidth_hz))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (whole / run.bandwidth_hz)[part] * np.sqrt(run.k / sending)
    return np.where(sending > 0, found, np.inf)


def _least_over_codecs(
    run: WholeRun, prices: DualPrices, sending: FloatArray, part: IntArray
) -> FloatArray:
    """For each part, the least price of its uploads over the codecs, at the best price of a hertz.

    z, the root of that price, is halved in on: the value is greatest where z b is the sum of the
    roots at the codecs that devices choose at z.
    """
    assert run.menu is not None
    parts, price = len(run.bandwidth_hz), prices.distortion_s[part // run.num_edges]
    root = np.sqrt(sending * run.bit_hz_s)[:, None] * np.sqrt(run.menu.bits)
    lost = price[:, None] * run.menu.distortion
    low, high = np.zeros(parts), np.bincount(part, root[:, -1], minlength=parts) / run.bandwidth_hz
    for _ in range(HALVINGS):
        z = (low + high) / 2
        chosen = np.argmin(2 * z[part, None] * root + lost, axis=1)
        total = np.bincount(part, root[np.arange(len(part)), chosen], minlength=parts)
        more = total > z * run.bandwidth_hz
        low, high = np.where(more, z, low), np.where(more, high, z)
    each = np.min(2 * low[part, None] * root + lost, axis=1)
    return np.asarray(np.bincount(part, each, minlength=parts) - low**2 * run.bandwidth_hz)


def price_seconds(run: WholeRun, links: LinkTimes, prices: DualPrices) -> FloatArray:
    """For each global round the greatest bound at the energy prices; updates the time prices."""
    from fedrt.bound.search import price_rounds

    value_s = np.empty(run.global_rounds)
    price_rounds(
        priced_run(run, prices),
        links.first,
        links.backhaul_s,
        prices.share,
        prices.second,
        prices.chosen,
        value_s,
    )
    return value_s


def priced_run(run: WholeRun, prices: DualPrices) -> PricedRun:
    """A run at given prices of energy and distortion, as arrays for the searches."""
    from fedrt.bound.kernel import PricedRun

    menu = run.menu
    nothing = np.zeros(0)
    return PricedRun(
        edge_rounds=run.edge_rounds,
        servers=run.num_edges,
        first=run.first,
        k=run.k if menu is None else np.asarray(run.k),
        bandwidth_hz=run.bandwidth_hz,
        columns=np.ascontiguousarray(device_columns(run, prices.joule_s)[:, run.device]),
        state=prices.state,
        root_bits=nothing if menu is None else np.sqrt(menu.bits),
        distortion=nothing if menu is None else np.array(menu.distortion),
        root_bit_hz_s=nothing if menu is None else np.sqrt(run.bit_hz_s),
        distortion_s=prices.distortion_s,
    )
