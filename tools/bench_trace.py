"""The synthetic trace of the bench's world `bench/traced`; nothing in it was measured.

    python tools/bench_trace.py    # writes it anew; a test holds it equal

Each of 24 devices moves about its own mean SNR: a slow drift with a period of its own, shadowing
that correlates from one edge round to the next, and now and then a blocked line of sight, which
takes 8 dB for some edge rounds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedrt.seeding import normals, uniforms
from fedrt.system.files import write_text

FILE = Path(__file__).parents[1] / "src/fedrt/scenario/presets/bench/traced.csv"
DEVICES, GLOBAL_ROUNDS, EDGE_ROUNDS, SEED = 24, 30, 2, 22
SHADOWING_DB, CORRELATION, BLOCKED_DB = 2.5, 0.7, 8.0
STARTS, ENDS = 0.06, 0.35
"""The chances that a blockage begins and that it ends in an edge round."""


def trace_text() -> str:
    """The trace as CSV, one row for each device and edge round, SNRs to a tenth of a decibel."""
    devices = np.arange(DEVICES)
    mean_db = 4.0 + 9.0 * uniforms(devices, SEED, "mean")
    swing_db = 1.0 + 3.0 * uniforms(devices, SEED, "swing")
    period = 12.0 + 30.0 * uniforms(devices, SEED, "period")
    phase = 2 * np.pi * uniforms(devices, SEED, "phase")
    shadow_db = SHADOWING_DB * normals(devices, SEED, "shadow-start")
    blocked = uniforms(devices, SEED, "blocked-start") < STARTS / (STARTS + ENDS)
    lines = ["global_round,edge_round,device,snr_db"]
    for step in range(GLOBAL_ROUNDS * EDGE_ROUNDS):
        drift_db = swing_db * np.sin(2 * np.pi * step / period + phase)
        snr_db = mean_db + drift_db + shadow_db - BLOCKED_DB * blocked
        t, r = divmod(step, EDGE_ROUNDS)
        lines += [f"{t},{r},{n},{value:.1f}" for n, value in enumerate(snr_db.tolist())]
        new = np.sqrt(1 - CORRELATION**2) * SHADOWING_DB * normals(devices, SEED, "shadow", step)
        shadow_db = CORRELATION * shadow_db + new
        drawn = uniforms(devices, SEED, "blocked", step)
        blocked = np.where(blocked, drawn >= ENDS, drawn < STARTS)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_text(FILE, trace_text())
