"""`fedrt.testbed` and `fedrt.testbed_clean`: real parties in namespaces of one machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrt.api.asked import Objects, Settings, read_scenario_asked, read_seed
from fedrt.api.devices.enrolment import enrol_init, enrol_sign
from fedrt.api.files.splitting import data_split
from fedrt.api.folders import Place
from fedrt.errors import InputError
from fedrt.policies import make_policy
from fedrt.scenario import Scenario
from fedrt.scenario.load import Source, scenario_text
from fedrt.system.extras import need
from fedrt.system.files import free_name, whole_folder, write_json, write_text
from fedrt.system.inputs import parse_json, read_text
from fedrt.validation import Real, shown

if TYPE_CHECKING:
    from fedrt.testbed.layout import Layout
    from fedrt.testbed.prediction import Predictions

Tell = Callable[[str], None]

ASKED = "asked.json"
"""In the folder of a testbed: what was asked for, so that it can go on."""
CPUS = ("cgroup", "duty")


@dataclass(frozen=True)
class TestbedResult:
    """What came of a run in a testbed."""

    __test__ = False  # not a test of pytest's

    path: Path
    """The folder of the testbed; its run is in `run`."""
    predictions: Predictions

    @property
    def run(self) -> Path:
        """The run folder, for `fedrt.report` and all else that reads one."""
        return self.path / "run"


def testbed(
    scenario: Source | None = None,
    *,
    policy: str = "fedrt",
    seed: int | str = 0,
    settings: Settings = (),
    out: Place | None = None,
    core_ghz: float | str | None = None,
    cpu: str | None = None,
    core_step_s: float | str | None = None,
    keep: bool = False,
    allow_code: bool = False,
    data_dir: Place | None = None,
    tell: Tell = print,
) -> TestbedResult:
    """Run a scenario on real processes of this machine: `fedrt testbed`. Needs Linux and root.

    Every party is in a network namespace of its own. Uploads are held to their planned rates, links
    between edge servers to the scenario's speeds of every round, and training to its planned share
    of the CPU, by a quota (`cpu` "cgroup") or, where this machine has none, by pauses ("duty").
    `core_ghz` is the frequency that one whole core stands for, and `core_step_s` are the seconds
    of a local step on it: by default the scenario's, or what is measured at the start if that is
    longer; with 0 shares are those of CPU time. `out` is a new folder, or one in which such a run
    was stopped, which then goes on. With `keep` the testbed stays until `testbed_clean`.
    """
    _need()
    from fedrt.testbed.bed import make_room, run_testbed
    from fedrt.testbed.commands import Given
    from fedrt.testbed.prediction import predictions_of

    asked, number = read_scenario_asked(scenario, Objects(), settings), read_seed(seed)
    asked = _for_real(asked, data_dir)
    make_policy(policy)
    _check_cpu(cpu)
    step_s = _number("core_step_s", core_step_s, Real(least=0, most=1e6))
    ghz = _number("core_ghz", core_ghz, Real(above=0, most=1e6))
    layout, speeds = _laid_out(asked, number, ghz)
    _refuse_unfit()
    make_room(tell)
    cpu = _cpu_of(cpu, tell)
    folder = Path(out) if out is not None else free_name(Path("runs"), f"testbed-{asked.name}")
    about = {"scenario": scenario_text(asked, anywhere=True), "policy": policy, "seed": number}
    _prepare(folder, asked, layout, about, data_dir, tell)
    tell(_load_words(layout))
    layout = _paced(layout, asked, number, step_s, folder, allow_code, tell)
    given = Given(
        folder=folder,
        layout=layout,
        policy=policy,
        seed=number,
        backhaul_bps=speeds,
        global_rounds=asked.rounds.global_rounds,
        round_trip_s=0.0 if asked.overheads is None else asked.overheads.round_trip_s,
        cpu=cpu,
        keep=keep,
        allow_code=allow_code,
    )
    run_testbed(given, tell)
    return TestbedResult(folder, predictions_of(folder / "run"))


def _check_cpu(cpu: str | None) -> None:
    if cpu is not None and cpu not in CPUS:
        raise InputError(f"`cpu` {shown(cpu)}: must be {' or '.join(CPUS)}")


def _cpu_of(asked: str | None, tell: Tell) -> str:
    """What holds devices to their shares of the CPU: what was asked for, or what this machine has.

    An error if a quota was asked for where none can be had.
    """
    if asked == "duty":
        return asked
    from fedrt.testbed.leftovers import FOLDER, TRIAL
    from fedrt.testbed.quota import quota_problem

    problem = quota_problem(FOLDER / TRIAL)
    if not problem:
        return "cgroup"
    if asked is not None:
        raise InputError(f"`cpu` {shown(asked)}: cannot be used here: {problem}; give duty")
    tell(f"devices get no quota of the CPU here ({problem}): they are held by pauses, as with duty")
    return "duty"


def _load_words(layout: Layout) -> str:
    shares = sum(host.cpu_share for host in layout.of("device"))
    return (
        f"{len(layout.hosts)} parties; one core stands for {layout.core_hz / 1e9:.3g} GHz, all"
        f" devices at full speed take {shares:.2f} of {layout.cores} cores"
    )


def testbed_clean() -> list[str]:
    """Remove all testbeds that were kept, or were killed: `fedrt testbed --clean`.

    Returns their tags. One that is running is left alone.
    """
    _need()
    from fedrt.testbed.leftovers import clean

    _refuse_unfit()
    return [each.tag for each in clean(kept=True)]


def _need() -> None:
    need("fedrt testbed", "grpc")
    need("fedrt testbed", "torch")


def _refuse_unfit() -> None:
    from fedrt.testbed.machine import machine_problems

    if problems := machine_problems():
        raise InputError(problems)


def _for_real(scenario: Scenario, data_dir: Place | None) -> Scenario:
    """The scenario as parties take it; an error if it has what only a simulation can."""
    if scenario.faults is not None:
        raise InputError("scenario.faults: must not be there: what fails here is not drawn")
    if scenario.needs_measuring:
        from fedrt.learning.material import measure

        return measure(scenario, None if data_dir is None else Path(data_dir))
    return scenario


def _number(name: str, given: float | str | None, rule: Real) -> float | None:
    """A number as it was given or typed; an error if the rule does not take it."""
    from fedrt.devices.common.settings import from_text

    if given is None:
        return None
    lines: list[str] = []
    value = from_text(given, rule) if isinstance(given, str) else given
    found = rule.read(value, f"`{name}`", lines)
    if found is None:
        raise InputError(lines)
    return float(found)


def _paced(
    layout: Layout,
    scenario: Scenario,
    seed: int,
    asked: float | None,
    folder: Path,
    allow_code: bool,
    tell: Tell,
) -> Layout:
    """The layout with the pace of every device.

    It is the one asked for, or that of the scenario where this machine can keep it.
    """
    from fedrt.testbed.pace import described_s, pace_of, pace_words

    described = described_s(scenario, seed, layout.core_hz)
    if asked is None:
        timed = range(min(layout.cores, len(described)))  # on all cores at once
        found = np.maximum(described, pace_of(folder, timed, seed, allow_code=allow_code))
    else:
        found = np.full(len(described), asked)
    if found.any():
        tell(pace_words(found, described))
    return layout.paced(found.tolist())


def _laid_out(scenario: Scenario, seed: int, core_ghz: float | None) -> tuple[Layout, Any]:
    """Who is where, and the link speeds of every global round."""
    from fedrt.testbed.layout import lay_out
    from fedrt.testbed.machine import usable_cores
    from fedrt.world.simulated import SimulatedWorld

    world = SimulatedWorld(scenario, seed)
    layout = lay_out(scenario, seed, world.base_graph, usable_cores(), core_ghz)
    return layout, world.backhaul_bps


def _prepare(
    folder: Path,
    scenario: Scenario,
    layout: Layout,
    about: dict[str, Any],
    data_dir: Place | None,
    tell: Tell,
) -> None:
    """Scenario, samples and certificates of all parties, in a folder that has all or nothing.

    A folder in which the same was prepared before is used again.
    """
    if folder.exists():
        try:
            before = parse_json(read_text(folder / ASKED))
        except (OSError, ValueError):
            before = None
        if before != about:
            raise InputError(f"{folder}: exists already, with something else: give another `out`")
        if (folder / "run" / "summary.json").exists():
            raise InputError(f"{folder}: its run has ended: give another `out`")
        tell(f"going on with {folder}")
        return
    with whole_folder(folder) as made:
        split = data_split(scenario, out=made / "data", seed=about["seed"], data_dir=data_dir)
        for line in split.notes:
            tell(line)
        text = scenario_text(scenario, anywhere=True)
        write_text(made / "scenario.toml", text + (split.normalise or ""))
        enrol_init(made / "ca")
        for host in layout.hosts:
            enrol_sign(
                made / "ca", role=host.role, name=host.name, out=made / "parties" / host.name
            )
        write_json(made / ASKED, about)
