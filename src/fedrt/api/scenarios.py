"""`fedrt.scenario`, `fedrt.check`: scenarios as values; `fedrt.trace_convert`; `fedrt.plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from fedrt.api.asked import Objects, PolicyLike, Settings, load_with, read_policy
from fedrt.api.folders import Place
from fedrt.api.session import note
from fedrt.decision.answer import plan_round
from fedrt.decision.state import RoundState, load_state, read_state
from fedrt.errors import InputError
from fedrt.policies import make_policy
from fedrt.policies.base import CONTRACTION_LIMIT, needs_of
from fedrt.scenario import Scenario
from fedrt.scenario.classes import with_setting
from fedrt.scenario.entries import path_problems
from fedrt.scenario.load import Source
from fedrt.scenario.model import MEASURED
from fedrt.scenario.sizes import size_notes
from fedrt.scenario.tables.fields import PerDevice
from fedrt.scenario.tables.layers import plain, without_none
from fedrt.settings import Sections
from fedrt.system.plugins import offered
from fedrt.world.fleet import fleet_notes
from fedrt.world.logs.write import ConvertedTrace, write_trace
from fedrt.world.simulated import SimulatedWorld


def scenario(
    source: Source | None = "quickstart", settings: Settings = (), **sections: Unpack[Sections]
) -> Scenario:
    """The scenario of a shipped one's name or a TOML file, with settings changed.

    `settings` are texts as the command line takes them, `["fleet.num_devices=100"]`, or a table of
    such keys; sections are tables as `Scenario.with_` takes them. With None for the source they are
    the whole scenario.
    """
    if source is None:
        named = {"name": "scenario", "description": "", **sections}
        return Scenario.read(without_none(plain(named)))
    found = load_with(source, settings, Objects())
    return found.with_(**sections) if sections else found


def check(source: Source, settings: Settings = ()) -> Scenario:
    """The scenario, after its world was made as well: `fedrt scenario check`.

    Traces are read, tables of measured energies too, and code of one's own that it names is loaded;
    an error says all that is wrong.
    """
    found = load_with(source, settings, Objects())
    if lines := path_problems(found, load=True):
        raise InputError(lines)
    made = found
    if found.needs_measuring:  # which takes the model and the data: any number does here
        learning = replace(found.learning, model_bits=1.0)
        fleet = with_setting(found.fleet, "cycles_per_sample", MEASURED, PerDevice(1.0, 1.0))
        made = replace(found, learning=learning, fleet=fleet)
    world = SimulatedWorld(made, seed=0)
    for line in (*size_notes(found.learning), *fleet_notes(made, world.fleet)):
        note(f"note: {line}")
    return found


def plan(
    state: RoundState | Mapping[str, Any] | str | Path,
    *,
    policy: PolicyLike = "fedrt",
    strict: bool = False,
) -> dict[str, Any]:
    """The best plan for one round, as the JSON that `fedrt plan` prints.

    `state` is a JSON file, its contents as a table, or what `fedrt.load_state` returns. With
    `strict` it is an error if no plan keeps every limit.
    """
    objects = Objects()
    name = read_policy(policy, objects)
    with offered(objects.found):
        made = make_policy(name)
    if isinstance(state, str | Path):
        state = load_state(state)
    elif not isinstance(state, RoundState):
        state = read_state(state)
    for line in state.notes:
        note(f"note: {line}")
    if state.contraction_limit_given:
        if CONTRACTION_LIMIT not in needs_of(made):
            note(f"note: {made.name} does not use state.contraction_limit")
        elif state.seen.backhaul is None:
            note("note: state.contraction_limit is not used without state.backhaul_bps")
    return plan_round(state, made, strict=strict)


def trace_convert(
    logs: Sequence[Place] | Place,
    *,
    log_format: str,
    out: Place,
    to: str = "channel",
    edge_round_s: float = 10.0,
    edge_rounds: int = 2,
    global_rounds: int | None = None,
    links: str | Sequence[tuple[int, int]] | None = None,
    bits_per_hz: float | None = None,
    overwrite: bool = False,
) -> ConvertedTrace:
    """Write a trace from public logs of mobile networks: `fedrt trace convert`.

    `log_format` is `raca-4g`, `raca-5g` or `ghent`. `to` is `channel` (SNR, a log for each device),
    `bandwidth` (rates over `bits_per_hz`, a log for each edge server) or `backhaul` (rates, a log
    for each of the `links`, `"0-1,1-2"` or pairs). A value is the mean over `edge_round_s` seconds.
    Without `global_rounds` the shortest log ends the trace.
    """
    made = write_trace(
        logs,
        log_format=log_format,
        out=out,
        to=to,
        edge_round_s=edge_round_s,
        edge_rounds=edge_rounds,
        global_rounds=global_rounds,
        links=links,
        bits_per_hz=bits_per_hz,
        overwrite=overwrite,
    )
    for line in made.notes:
        note(f"note: {line}")
    return made
