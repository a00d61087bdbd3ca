"""One decision: the state of a round as JSON data in, the plan as JSON data out.

The contract is in docs/plan.md. `read_state` checks everything once; `plan_round` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.decision.answer import plan_round as plan_round
    from fedrt.decision.state import RoundState as RoundState
    from fedrt.decision.state import load_state as load_state
    from fedrt.decision.state import parse_state as parse_state
    from fedrt.decision.state import read_state as read_state
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "answer": "plan_round",
            "state": "RoundState load_state parse_state read_state",
        },
    )
