"""Whatever the state: no plan of any policy breaks a limit unless it says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedrt.decision import plan_round
from fedrt.policies import POLICIES

pytestmark = pytest.mark.numerical


def logs(low, high):
    return st.floats(np.log10(low), np.log10(high)).map(lambda x: 10**x)


@st.composite
def states(draw):
    edges = draw(st.integers(1, 5))

    def device():
        low = draw(logs(1e7, 1e9))
        cycles, capacitance = draw(logs(1e6, 1e12)), draw(logs(1e-30, 1e-26))
        floor_j = capacitance / 2 * cycles * low**2
        budget = st.one_of(
            st.none(),
            st.just(0.0),
            st.floats(-10, 0),
            logs(1e-4, 1e3),
            logs(0.1, 10).map(lambda x: x * floor_j),
        )
        return {
            "cycles": cycles,
            "snr_db": draw(st.floats(-10, 40)),
            "tx_power_w": draw(st.one_of(st.just(0.0), logs(1e-12, 10))),
            "capacitance": capacitance,
            "cpu_min_hz": low,
            "cpu_max_hz": low * draw(st.one_of(st.just(1.0), logs(1, 100))),
            "energy_allowance_j": draw(budget),
        }

    state = {
        "model_bits": draw(logs(1e3, 1e9)),
        "local_steps": draw(st.integers(1, 20)),
        "gossip_steps": draw(st.integers(1, 10)),
        "edges": [
            {
                "bandwidth_hz": draw(logs(1e4, 1e8)),
                "elapsed_s": draw(st.floats(0, 100)),
                "devices": [device() for _ in range(draw(st.integers(0, 4)))],
            }
            for _ in range(edges)
        ],
    }
    if draw(st.booleans()):
        bps, distance = np.zeros((edges, edges)), np.zeros((edges, edges))
        for c in range(edges):
            for c2 in range(c):
                # The ring of neighbours keeps the base graph connected.
                linked = c2 == c - 1 or draw(st.booleans())
                bps[c, c2] = bps[c2, c] = draw(logs(1e4, 1e8)) if linked else 0.0
                distance[c, c2] = distance[c2, c] = draw(st.one_of(st.just(0.0), st.floats(0, 5)))
        state["backhaul_bps"] = bps.tolist()
        state["consensus_distance"] = distance.tolist()
        state["consensus_limit"] = draw(st.floats(0, 1)) * float(distance.sum()) / edges**2
    return state


def check_devices(state, answer, c):
    """Bandwidth, frequency and energy of one cluster's devices; whether one is over its budget."""
    edge, planned = state["edges"][c], answer["edges"][c]
    given, got = edge["devices"], planned["devices"]
    assert len(given) == len(got)
    assert sum(d["bandwidth_hz"] for d in got) <= edge["bandwidth_hz"] * (1 + 1e-9)
    over = False
    for want, have in zip(given, got, strict=True):
        assert have["bandwidth_hz"] > 0
        assert want["cpu_min_hz"] * (1 - 1e-9) <= have["cpu_hz"]
        assert have["cpu_hz"] <= want["cpu_max_hz"] * (1 + 1e-9)
        assert have["local_steps"] >= 1
        rate = have["bandwidth_hz"] * np.log2(1 + 10 ** (want["snr_db"] / 10))
        cycles = want["cycles"] * have["local_steps"] / state["local_steps"]
        upload_s, compute_s = state["model_bits"] / rate, cycles / have["cpu_hz"]
        energy_j = want["tx_power_w"] * upload_s
        energy_j += want["capacitance"] / 2 * cycles * have["cpu_hz"] ** 2
        assert have["upload_s"] == pytest.approx(upload_s, rel=1e-9)
        assert have["compute_s"] == pytest.approx(compute_s, rel=1e-9)
        assert have["energy_j"] == pytest.approx(energy_j, rel=1e-9)
        assert planned["time_s"] >= (upload_s + compute_s) * (1 - 1e-9)
        allowed = want["energy_allowance_j"]
        if have["over_budget_j"] == 0:
            assert allowed is None or energy_j <= allowed + 2e-9 * max(energy_j, abs(allowed))
        else:
            over = True
            assert have["over_budget_j"] == pytest.approx(energy_j - allowed, rel=1e-6)
    return over


def check_links(state, answer):
    """Links inside the base graph, connected; whether they break the consensus limit."""
    size = len(state["edges"])
    topology = np.zeros((size, size), dtype=bool)
    for c, c2 in answer["topology"]:
        assert state["backhaul_bps"][c][c2] > 0
        topology[c, c2] = topology[c2, c] = True
    laplacian = np.diag(topology.sum(axis=1)) - topology.astype(float)
    assert size == 1 or np.linalg.eigvalsh(laplacian)[1] > 1e-9
    distance = np.array(state["consensus_distance"])
    left = distance[~topology].sum() / size**2
    return bool(left > state["consensus_limit"] * (1 + 1e-9))


@pytest.mark.parametrize("name", POLICIES)
@given(state=states())
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_no_plan_breaks_a_limit_unless_it_says_so(name, state):
    answer = plan_round(state, name)
    broken = [check_devices(state, answer, c) for c in range(len(state["edges"]))]
    ends = [
        edge["elapsed_s"] + planned["time_s"] + planned["backhaul_s"]
        for edge, planned in zip(state["edges"], answer["edges"], strict=True)
    ]
    assert answer["round_time_s"] == pytest.approx(max(ends), rel=1e-12)
    if "backhaul_bps" in state:
        broken.append(check_links(state, answer))
    if any(broken):
        assert answer["status"] == "best-effort"
