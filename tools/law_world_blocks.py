"""The blocks of the pages that tell of random worlds under laws of the physical layer."""

from __future__ import annotations

from figure_sources import measured

TITLES = {
    "noise-density": "noise spread over the bandwidth",
    "power-control": "power control",
    "blocks": "whole resource blocks",
    "downlink": "downlink and overheads",
    "cpu-table": "measured computing energy",
    "idle-power": "idle power",
    "several": "two or more of them",
}
PLUS, JOINT = "fedrt-plus", "fedrt-joint"


def law_runs() -> str:
    """Both policies against `fedrt` on random worlds, a row for each law."""
    data = measured("law_runs").summary
    lines = [
        "| law | policy | worlds | slower by more than 1 % in | at most slower by |"
        " more overspend in | time saved, mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for law, title in TITLES.items():
        for policy in (PLUS, JOINT):
            if law not in data or policy not in data[law]:
                continue
            own = data[law][policy]
            lines.append(
                f"| {title} | `{policy}` | {own.worlds} | {len(own.behind_by_more_than_1_percent)}"
                f" | {100 * own.worst_behind:.2f} % | {len(own.overspends_more)}"
                f" | {100 * own.time_saved_mean:.1f} % |"
            )
    return "\n".join(lines) + "\n"


def law_bounds() -> str:
    """The bound on small random worlds, a row for each law."""
    data = measured("law_bounds").summary
    lines = [
        "| law | worlds | plans below the bound | `fedrt` above it, median | `fedrt-plus` |"
        " random plans, nearest |",
        "|---|---|---|---|---|---|",
    ]
    for law in data:
        own = data[law]
        nearest = min(own.least_above.random, own.least_above.quickest)
        lines.append(
            f"| {TITLES[law]} | {own.worlds} | {len(own.broken)}"
            f" | {100 * own.median_above.fedrt:.2f} % | {100 * own.median_above[PLUS]:.2f} %"
            f" | {100 * nearest:z.2f} % |"
        )
    return "\n".join(lines) + "\n"
