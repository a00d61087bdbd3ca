"""The cost model: one pure function per equation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.cost.backhaul import backhaul_time_s as backhaul_time_s
    from fedrt.cost.backhaul import link_bytes as link_bytes
    from fedrt.cost.backhaul import link_time_s as link_time_s
    from fedrt.cost.compute import compute_energy_j as compute_energy_j
    from fedrt.cost.compute import compute_time_s as compute_time_s
    from fedrt.cost.compute import training_cycles as training_cycles
    from fedrt.cost.outcome import Deadline as Deadline
    from fedrt.cost.outcome import FailureRules as FailureRules
    from fedrt.cost.outcome import carry_out as carry_out
    from fedrt.cost.outcome import failure_rules as failure_rules
    from fedrt.cost.outcome import simulate as simulate
    from fedrt.cost.round import global_round_time_s as global_round_time_s
    from fedrt.cost.round import price as price
    from fedrt.cost.round import slowest_device_s as slowest_device_s
    from fedrt.cost.uplink import bandwidth_of_rate_hz as bandwidth_of_rate_hz
    from fedrt.cost.uplink import hertz_seconds as hertz_seconds
    from fedrt.cost.uplink import rate_bps as rate_bps
    from fedrt.cost.uplink import upload_energy_j as upload_energy_j
    from fedrt.cost.uplink import upload_time_s as upload_time_s
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "backhaul": "backhaul_time_s link_bytes link_time_s",
            "compute": "compute_energy_j compute_time_s training_cycles",
            "outcome": "Deadline FailureRules carry_out failure_rules simulate",
            "round": "global_round_time_s price slowest_device_s",
            "uplink": "bandwidth_of_rate_hz hertz_seconds rate_bps upload_energy_j upload_time_s",
        },
    )
