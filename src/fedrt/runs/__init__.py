"""Whole runs: the loop, executors, the coordinator's belief, and the rounds they produce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.runs.belief import Belief as Belief
    from fedrt.runs.executor import Executor as Executor
    from fedrt.runs.executor import Models as Models
    from fedrt.runs.executor import SimulatedExecutor as SimulatedExecutor
    from fedrt.runs.loop import make_world as make_world
    from fedrt.runs.loop import run_rounds as run_rounds
    from fedrt.runs.loop import simulate_rounds as simulate_rounds
    from fedrt.runs.rounds import EdgeRound as EdgeRound
    from fedrt.runs.rounds import GlobalRound as GlobalRound
    from fedrt.runs.rounds import PastEdgeRound as PastEdgeRound
    from fedrt.runs.state import RunState as RunState
    from fedrt.runs.state import open_ledger as open_ledger
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "belief": "Belief",
            "executor": "Executor Models SimulatedExecutor",
            "loop": "make_world run_rounds simulate_rounds",
            "rounds": "EdgeRound GlobalRound PastEdgeRound",
            "state": "RunState open_ledger",
        },
    )
