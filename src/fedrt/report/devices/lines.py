"""One line about a global round on real devices, for whoever watches the coordinator."""

from __future__ import annotations

from fedrt.runs.rounds import GlobalRound

MOST_NAMED = 10


def round_line(done: GlobalRound) -> str:
    """Predicted and measured seconds of a global round, updates that came, and the accuracy."""
    turns = [turn.outcome for turn in done.edge_rounds]
    planned = sum(float(turn.planned.edge_time_s.max()) for turn in turns)
    measured = sum(float(turn.cost.edge_time_s.max()) for turn in turns)
    came = sum(int((turn.delivered & ~turn.is_refused).sum()) for turn in turns)
    refused = sorted({int(n) for turn in turns for n in turn.device[turn.is_refused]})
    asked = sum(len(turn.delivered) for turn in turns)
    found = done.metrics.get("accuracy")
    line = f"global round {done.last.t + 1}: {done.time_s:.2f} s, training {measured:.2f} s"
    line += f" (predicted {planned:.2f}), {came} of {asked} updates"
    if refused:
        names = ", ".join(map(str, refused[:MOST_NAMED]))
        more = f" and {len(refused) - MOST_NAMED} more" if len(refused) > MOST_NAMED else ""
        line += f" (refused: device {names}{more})"
    if found is not None and found == found:
        line += f", accuracy {found:.4f}"
    return line
