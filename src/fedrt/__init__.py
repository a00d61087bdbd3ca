"""FedRT: resource allocation and topology design for hierarchical federated edge learning.

`dir(fedrt)` lists what is exported. Each name is loaded when it is first used, so that
`import fedrt` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export as load_late

__version__ = "0.2.0"

if TYPE_CHECKING:
    from fedrt.api import ComparisonResult as ComparisonResult
    from fedrt.api import Page as Page
    from fedrt.api import RunResult as RunResult
    from fedrt.api import StudyResult as StudyResult
    from fedrt.api import bench as bench
    from fedrt.api import bound as bound
    from fedrt.api import calibrate as calibrate
    from fedrt.api import check as check
    from fedrt.api import compare as compare
    from fedrt.api import coordinator as coordinator
    from fedrt.api import data_fetch as data_fetch
    from fedrt.api import data_import as data_import
    from fedrt.api import data_list as data_list
    from fedrt.api import data_show as data_show
    from fedrt.api import data_split as data_split
    from fedrt.api import device as device
    from fedrt.api import edge as edge
    from fedrt.api import enrol_init as enrol_init
    from fedrt.api import enrol_request as enrol_request
    from fedrt.api import enrol_revoke as enrol_revoke
    from fedrt.api import enrol_show as enrol_show
    from fedrt.api import enrol_sign as enrol_sign
    from fedrt.api import estimate as estimate
    from fedrt.api import export as export
    from fedrt.api import front as front
    from fedrt.api import plan as plan
    from fedrt.api import report as report
    from fedrt.api import reproduce as reproduce
    from fedrt.api import run as run
    from fedrt.api import scenario as scenario
    from fedrt.api import size as size
    from fedrt.api import sweep as sweep
    from fedrt.api import testbed as testbed
    from fedrt.api import testbed_clean as testbed_clean
    from fedrt.api import trace_convert as trace_convert
    from fedrt.api import watch as watch
    from fedrt.callbacks import Callback as Callback
    from fedrt.callbacks import RunInfo as RunInfo
    from fedrt.decision import RoundState as RoundState
    from fedrt.decision import load_state as load_state
    from fedrt.decision import plan_round as plan_round
    from fedrt.decision import read_state as read_state
    from fedrt.errors import FedrtError as FedrtError
    from fedrt.errors import InfeasibleError as InfeasibleError
    from fedrt.errors import InputError as InputError
    from fedrt.ledger import Books as Books
    from fedrt.ledger import Ledger as Ledger
    from fedrt.plan import Gossip as Gossip
    from fedrt.plan import Plan as Plan
    from fedrt.policies import POLICIES as POLICIES
    from fedrt.policies import Policy as Policy
    from fedrt.policies import make_policy as make_policy
    from fedrt.records import RunOptions as RunOptions
    from fedrt.records import SavedRun as SavedRun
    from fedrt.records import read_run as read_run
    from fedrt.rounds import Outcome as Outcome
    from fedrt.runs import Executor as Executor
    from fedrt.runs import GlobalRound as GlobalRound
    from fedrt.runs import SimulatedExecutor as SimulatedExecutor
    from fedrt.runs import make_world as make_world
    from fedrt.runs import run_rounds as run_rounds
    from fedrt.runs import simulate_rounds as simulate_rounds
    from fedrt.scenario import Scenario as Scenario
    from fedrt.scenario import load_scenario as load_scenario
    from fedrt.scenario import preset_names as preset_names
    from fedrt.scenario import read_scenario as read_scenario
    from fedrt.scenario import scenario_text as scenario_text
    from fedrt.studies import carry_on as carry_on
    from fedrt.studies import compare_to_bound as compare_to_bound
    from fedrt.studies import comparison as comparison
    from fedrt.studies import front_points as front_points
    from fedrt.studies import go_on as go_on
    from fedrt.studies import plan_sweep as plan_sweep
    from fedrt.studies import read_comparison as read_comparison
    from fedrt.studies import run_sweep as run_sweep
    from fedrt.studies import start_comparison as start_comparison
    from fedrt.studies import start_run as start_run
    from fedrt.world import Backhaul as Backhaul
    from fedrt.world import Observation as Observation
    from fedrt.world import SimulatedWorld as SimulatedWorld
    from fedrt.world import World as World
else:
    __getattr__, __dir__, __all__ = load_late(
        __name__,
        {
            "api": (
                "ComparisonResult Page RunResult StudyResult bench bound calibrate check compare "
                "coordinator data_fetch data_import data_list data_show data_split device edge "
                "enrol_init enrol_request enrol_revoke enrol_show enrol_sign estimate export "
                "front plan report reproduce run scenario size sweep testbed testbed_clean "
                "trace_convert watch"
            ),
            "callbacks": "Callback RunInfo",
            "errors": "FedrtError InfeasibleError InputError",
            "scenario": "Scenario load_scenario preset_names read_scenario scenario_text",
            "world": "Backhaul Observation SimulatedWorld World",
            "plan": "Gossip Plan",
            "rounds": "Outcome",
            "ledger": "Books Ledger",
            "policies": "POLICIES Policy make_policy",
            "decision": "RoundState load_state plan_round read_state",
            "runs": "Executor GlobalRound SimulatedExecutor make_world run_rounds simulate_rounds",
            "records": "RunOptions SavedRun read_run",
            "studies": (
                "carry_on compare_to_bound comparison front_points go_on "
                "plan_sweep read_comparison run_sweep start_comparison start_run"
            ),
        },
    )
