"""The compiled search over the time prices of a global round, above those of `kernel`.

Kept apart because importing it loads numba. Each server's end falls as its share of the round's
price grows; the shares add up to one, and at the optimum all servers with a share end together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrt.bound.kernel import MOST_STEPS, PricedRun, price_cluster
from fedrt.system.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A round's prices are good enough when primal and dual differ by this part of its time; coarser
# where codecs are chosen, since the prices of distortion are not found more exactly.
GAP, CODED_GAP = 1e-7, 1e-5
# No server's seconds are priced below this: a price of zero would leave its uploads undefined.
LEAST_SHARE = 1e-9
# The most that the logarithm of a server's share may move in one step.
STRIDE = 3.0


@compiled()
def share_to_end_at(
    end_s: float,
    backhaul_s: float,
    room: float,
    t: int,
    c: int,
    share: float,
    run: PricedRun,
    nu: FloatArray,
) -> float:  # pragma: no cover - compiled
    """The share of the round's price with which server c ends at `end_s`.

    Its end falls with the logarithm of its share: Newton's steps in that, within a bracket. Good
    enough when it is late by no more than `room` seconds, or early by no more than that over its
    share: a lower share could not gain more.
    """
    low, high, x = np.log(LEAST_SHARE), 0.0, np.log(share)
    for _ in range(MOST_STEPS):
        share = np.exp(x)
        time_s, fall, _ = price_cluster(t, c, share, run, nu, False)
        late_s = time_s + backhaul_s - end_s
        if -late_s * share <= room and late_s <= room:
            break
        if late_s > 0.0:
            if x >= high:
                break
            low = x
            x = x - late_s / fall if fall < 0.0 else x + STRIDE
            x = min(x, low + STRIDE)
        else:
            if x <= low:
                break
            high = x
            x = x - late_s / fall if fall < 0.0 else x - STRIDE
            x = max(x, high - STRIDE)
        if x <= low or x >= high:
            # The ends themselves may be the answer; try them before halving.
            if x >= 0.0 and high == 0.0:
                x = 0.0
            elif x <= np.log(LEAST_SHARE) and low == np.log(LEAST_SHARE):
                x = low
            else:
                x = 0.5 * (low + high)
        if high - low <= 1e-14:
            break
    return share


@compiled()
def price_seconds(
    t: int, run: PricedRun, backhaul_s: FloatArray, share: FloatArray, nu: FloatArray
) -> float:  # pragma: no cover - compiled
    """The greatest bound of global round t over its time prices, for given backhaul times.

    Fills `share` (one per server) and `nu` (one per device and edge round). At the optimum all
    servers with a share end together, at the time for which their shares add up to one. No round
    ends before a server that has the whole price to itself; where one ends just then, that server
    takes what the others leave. Else the time is bracketed, the shares at both ends of the bracket
    are mixed so that they add up to one, and the false position of log(sum of shares) comes next.
    """
    servers = len(share)
    gap = CODED_GAP if len(run.root_bits) > 0 else GAP
    trial, kept, kept_nu = share.copy(), share.copy(), nu.copy()
    at_early, at_late = np.ones(servers), np.zeros(servers)
    best, first_s, last = -np.inf, 0.0, 0
    early_s, late_s, end_s, log_early, log_late = 0.0, np.inf, 0.0, 0.0, 0.0
    for turn in range(MOST_STEPS):
        value, top_s, mean_s = 0.0, 0.0, 0.0
        for c in range(servers):
            time_s, _, own = price_cluster(t, c, trial[c], run, nu, True)
            value += own + trial[c] * backhaul_s[c]
            top_s = max(top_s, time_s + backhaul_s[c])
            mean_s += trial[c] * (time_s + backhaul_s[c])
        if value > best:
            best = value
            kept[:], kept_nu[:] = trial, nu
        if top_s - mean_s <= gap * top_s or late_s - early_s <= 0.1 * gap * early_s:
            break
        if turn == 0:
            first_s = mean_s
            for c in range(servers):
                time_s, _, _ = price_cluster(t, c, 1.0, run, nu, False)
                if time_s + backhaul_s[c] > early_s:
                    early_s, last = time_s + backhaul_s[c], c
            end_s = early_s
        elif turn == 1:
            end_s = first_s if first_s > early_s * (1.0 + gap) else early_s * 1.001
        elif late_s == np.inf:
            end_s = early_s + 4.0 * max(early_s - first_s, 1e-3 * early_s)
        else:
            end_s = early_s + (late_s - early_s) * log_early / (log_early - log_late)
            if turn % 3 == 0 or not early_s < end_s < late_s:
                end_s = 0.5 * (early_s + late_s)
        total = 0.0
        for c in range(servers):
            room = 0.1 * gap * end_s
            trial[c] = share_to_end_at(end_s, backhaul_s[c], room, t, c, trial[c], run, nu)
            total += trial[c]
        if turn == 0:
            others = total - trial[last]
            at_early[:], log_early = trial, np.log(1.0 + others)
            at_early[last] = 1.0
            trial[last] = max(1.0 - others, LEAST_SHARE)
            trial /= trial.sum()
            continue
        if total > 1.0:
            early_s, log_early = end_s, np.log(total)
            at_early[:] = trial
        else:
            late_s, log_late = end_s, np.log(total)
            at_late[:] = trial
        if late_s < np.inf:
            sum_early, sum_late = at_early.sum(), at_late.sum()
            part = (1.0 - sum_late) / (sum_early - sum_late) if sum_early > sum_late else 0.0
            trial[:] = part * at_early + (1.0 - part) * at_late
        trial /= trial.sum()
    share[:], nu[:] = kept, kept_nu
    return best


@compiled()
def price_rounds(
    run: PricedRun,
    choices: IntArray,
    backhaul_s: FloatArray,
    share: FloatArray,
    nu: FloatArray,
    chosen: IntArray,
    value: FloatArray,
) -> None:  # pragma: no cover - compiled
    """The least bound of every global round over its choices of backhaul times.

    Round t may take the rows choices[t]:choices[t + 1] of `backhaul_s`. Fills `value`, `chosen`
    and, for the chosen row, `share` and `nu`. A row that is no better than the best so far at the
    best's own prices cannot be better at its own.
    """
    rows_of_round = run.edge_rounds * run.servers
    for t in range(len(value)):
        begin, end = run.first[t * rows_of_round], run.first[(t + 1) * rows_of_round]
        mine = share[t].copy()
        prices = nu[begin:end].copy()
        rows = backhaul_s[choices[t] : choices[t + 1]]
        order = np.argsort((rows * mine).sum(axis=1))
        value[t] = np.inf
        for j in order:
            if value[t] < np.inf:
                cost = (share[t] * (rows[j] - rows[chosen[t] - choices[t]])).sum()
                if cost >= 0.0:
                    continue
            mine[:], prices[:] = share[t], nu[begin:end]
            found = price_seconds(t, run, rows[j], mine, prices)
            if found < value[t]:
                value[t], chosen[t] = found, choices[t] + j
                share[t], nu[begin:end] = mine, prices
