"""Plans the round in round.json under two policies and prints the decision readably."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

import fedrt
from fedrt.units import readable_si

STATE = Path(__file__).with_name("round.json")


def main() -> None:
    console = Console()
    state = fedrt.load_state(STATE)
    plan = fedrt.plan_round(state, policy="fedrt-plus")
    usual = fedrt.plan_round(state, policy="ce-fedavg")

    table = Table(title="Who gets what (fedrt-plus)", caption=f"status: {plan['status']}")
    for name in (
        "edge",
        "device",
        "bandwidth",
        "CPU",
        "compute",
        "upload",
        "energy",
        "over budget",
    ):
        table.add_column(name, justify="right")
    for c, edge in enumerate(plan["edges"]):
        for n, device in enumerate(edge["devices"]):
            table.add_row(
                str(c),
                str(n),
                readable_si(device["bandwidth_hz"], "Hz"),
                readable_si(device["cpu_hz"], "Hz"),
                f"{device['compute_s']:.1f} s",
                f"{device['upload_s']:.1f} s",
                f"{device['energy_j']:.2f} J",
                f"{device['over_budget_j']:.2f} J" if device["over_budget_j"] else "-",
            )
        table.add_section()
    console.print(table)
    for c, edge in enumerate(plan["edges"]):
        elapsed_s = state.books.elapsed_s[c]
        console.print(
            f"edge {c}: {elapsed_s:.1f} s so far + {edge['time_s']:.1f} s this edge round"
            f" + {edge['backhaul_s']:.1f} s backhaul"
        )
    links = ", ".join(f"{c}-{c2}" for c, c2 in plan["topology"])
    console.print(f"links used: {links} of {len(usual['topology'])}")
    saved = 1 - plan["round_time_s"] / usual["round_time_s"]
    console.print(
        f"round time: {plan['round_time_s']:.1f} s; an even split over all links takes"
        f" {usual['round_time_s']:.1f} s ({saved:.0%} saved)"
    )


if __name__ == "__main__":
    main()
