"""The blocks of docs/gossip.md: how far apart coded gossip leaves models, and its training."""

from __future__ import annotations

from figure_sources import measured

CODECS = ("int8", "int6", "int5", "int4", "int3")


def gossip_left() -> str:
    """The distance to the average after gossip, exact and coded, two and ten steps."""
    rows = measured("coded_gossip").agreement
    heads = ["exact", *(f"`{codec}`" for codec in CODECS)]
    lines = [
        "| links, weights | steps | " + " | ".join(heads) + " | step sizes below 1 |",
        "|---" * (len(heads) + 3) + "|",
    ]
    for name in rows:
        row = rows[name]
        small = [codec for codec in CODECS if row.step_size[codec] < 0.999]
        said = ", ".join(f"`{codec}` {round(8 * row.step_size[codec])}/8" for codec in small)
        for steps in ("2", "10"):
            found = [row.exact[steps], *(row.left[codec][steps] for codec in CODECS)]
            told = " | ".join(f"{value:.3f}" for value in found)
            lines.append(f"| {name} | {steps} | {told} | {said if steps == '2' else ''} |")
    return "\n".join(lines) + "\n"


def gossip_seldom() -> str:
    """What is left where most links are seldom used."""
    rows = measured("coded_gossip").seldom
    heads = ["exact", *(f"`{codec}`" for codec in CODECS)]
    lines = ["| weights | steps | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for rule in rows:
        for steps in ("1", "2", "4"):
            found = [rows[rule][codec][steps] for codec in ("exact", *CODECS)]
            told = " | ".join(f"{value:.3f}" for value in found)
            lines.append(f"| {rule} | {steps} | {told} |")
    return "\n".join(lines) + "\n"


def gossip_trained() -> str:
    """Whole runs on digits under two policies, by the codec of their gossip."""
    runs = measured("coded_gossip").training
    lines = [
        "| policy | `learning.gossip` | MB over the backhaul | backhaul, s | whole run, s |"
        " accuracy, % |",
        "|---|---|---|---|---|---|",
    ]
    for name in runs:
        policy, _, codec = name.partition(", ")
        run = runs[name]
        lines.append(
            f"| `{policy}` | `{codec}` | {run.backhaul_mb:.1f} | {run.backhaul_s:.2f} |"
            f" {run.time_s:.1f} | {100 * run.accuracy:.1f} |"
        )
    return "\n".join(lines) + "\n"
