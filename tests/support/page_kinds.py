"""A folder of every kind that has a page, each small, for tests in a browser."""

from __future__ import annotations

from pathlib import Path

from fedrt.cli import main
from fedrt.policies import SHIPPED
from fedrt.studies.estimates import estimate
from support.laws import SETTINGS
from support.tiny import as_options, tiny

OWN = [f"support.own_policies:{name}" for name in ("Long", "Unbroken", "Html")]
FEW, SHORT = "rounds.global_rounds=2", "fleet.energy_j_per_edge_round=0.7"
AMPLE = "fleet.energy_j_per_edge_round=4"
FAULTS = tuple(
    f"faults.{name}={{kind='random',probability=0.3}}" for name in ("silent", "link_down", "absent")
)


def make(kind: str, out: Path) -> Path:
    """A folder of one kind: of a study, or of runs without training."""
    if kind in STUDIES:
        words, settings = STUDIES[kind]
        options = as_options(FEW, *settings) if settings is not None else []
        assert main([*words, *options, "--json", "--out", str(out)]) == 0
        return out
    policies, settings = RUNS[kind]
    estimate(tiny(FEW, *settings), policies, [0], out)
    return out


THREE = ("--policies", f"fedrt,ce-fedavg,{OWN[0]}")
GRID = ("--vary", "bandwidth.scale=1,4", "--vary", "backhaul.scale=1,2")
SPAN = ("--deadline", "5m", "--vary", "bandwidth.scale=0.5..8", "--allow-overspend")
BOUNDED = f"fedrt,fedrt-joint,{OWN[0]}"
BENCH = ("--worlds", "digits", "--seeds", "0", "--jobs", "1")
STUDIES: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "bench": (("bench", *BENCH, "--policies", f"fedrt-plus,ce-fedavg,tifl,{OWN[0]}"), None),
    "sweep": (("sweep", "quickstart", *GRID, *THREE), (SHORT,)),
    "front": (("front", "quickstart", "--budgets", "0.5,1,4", *THREE), ()),
    "size": (("size", "quickstart", *SPAN, "--policy", OWN[0]), (SHORT,)),
    "bound": (("bound", "quickstart", "--policies", BOUNDED), (AMPLE,)),
}
RUNS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "joint": (["fedrt-joint"], ()),
    "faults": (["fedrt"], FAULTS),
    "laws": (["fedrt"], (*SETTINGS["power"], *SETTINGS["downlink"], *SETTINGS["overheads"])),
    "shipped": (list(SHIPPED), (SHORT,)),
    "own": (["fedrt", *OWN], ()),
    "sparse": (
        ["fedrt"],
        (
            "fleet={num_edges=100,num_devices=200,cluster_sizes='even'}",
            "base_graph={kind='erdos-renyi',probability=0.05}",
        ),
    ),
}
KINDS = (*STUDIES, *RUNS)
