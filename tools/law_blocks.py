"""The block of docs/deviations.md on the laws of the physical layer."""

from __future__ import annotations

from figure_sources import measured

COLUMNS = {
    "fmnist-iid": "FMNIST",
    "cifar10-iid, 2 J": "CIFAR-10, 2 J",
    "femnist, 2 J": "FEMNIST, 2 J",
    "cifar10-iid": "CIFAR-10",
    "femnist": "FEMNIST",
}
MADE_WITHOUT = {
    "FixedSnr": "planned as with a fixed SNR",
    "RoundedBlocks": "planned without blocks and rounded",
}


def law_effects() -> str:
    """What every law adds to the time of `fedrt`, in percent of its time by the paper's laws."""
    cases = measured("law_effects").cases
    lines = [f"| law | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in cases:
        if name == "paper":
            continue
        for policy in cases[name]["fmnist-iid"]:
            words = f"{name}, {MADE_WITHOUT[policy]}" if policy in MADE_WITHOUT else name
            changes = []
            for column in COLUMNS:
                ours = sum(cases[name][column][policy]["total_time_s"])
                paper = sum(cases["paper"][column]["fedrt"]["total_time_s"])
                changes.append(f"{100 * (ours / paper - 1):+.1f} %".replace("-0.0", "+0.0"))
            lines.append(f"| {words} | {' | '.join(changes)} |")
    return "\n".join(lines) + "\n"
