"""The physical quantities that users give, with the range each must lie in.

The ranges are wide: they keep out what no fleet has (a wrong unit, a slipped exponent) and what
would overflow, nothing else.
"""

from __future__ import annotations

from fedrt.validation import Real, Whole

MODEL_BITS = Real(least=1, most=1e15)
MORE_BITS = Real(least=0, most=1e15)
"""What is sent beside a model or a message, perhaps nothing."""
GOSSIP_STEPS = Whole(1, 1_000)
"""The paper has 10; the search for steps and weights takes them one by one."""
LOCAL_STEPS = Whole(1, 1_000_000)
BANDWIDTH_HZ = Real(least=1e-6, most=1e15)
BACKHAUL_BPS = Real(least=1e-3, most=1e18)
LINK_BPS = Real(least=1e-3, most=1e18, or_zero=True)
SNR_DB = Real(least=-100, most=100)
GAIN_DB = Real(least=-300, most=0)
"""Of a channel: what arrives over what was sent, antennas included."""
CHANNEL_DB = Real(least=-300, most=100)
"""An SNR or a gain; which it is, and so its range, depends on the rate law."""
CN0_HZ = Real(least=1, most=1e20)
"""The carrier-to-noise-density ratio; at the least of it no bandwidth carries 2 bit/s."""
TX_POWER_W = Real(least=0, most=1e6)
CAPACITANCE = Real(least=1e-60, most=1)
CPU_HZ = Real(least=1, most=1e15)
CYCLES = Real(least=1e-6, most=1e24)
ENERGY_J = Real(least=-1e15, most=1e15)
SECONDS = Real(least=0, most=1e15)
DISTANCE = Real(least=0, most=1e15)
BUDGET_J = Real(least=0, most=1e15)
SCALE = Real(least=1e-6, most=1e6)
SEED = Whole(0, 10**18 - 1)
