"""Damaged scenarios, states and traces end in an answer or in lines, whatever is wrong with them.

FEDRT_MUTATIONS says how many cases there are, FEDRT_MUTATION_SEED which; `make fuzz` takes 500.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import shutil
from pathlib import Path

import pytest
from support.laws import EVERY_LAW
from support.mutations import (
    assert_no_traceback,
    mutated_bytes,
    mutated_json,
    mutated_toml,
    outcome_of,
)
from support.paths import ROOT
from support.states import state_under_laws
from support.tiny import tiny

from fedrt.scenario import load_scenario, preset_names, scenario_text

CASES = int(os.environ.get("FEDRT_MUTATIONS", "60"))
SEED = os.environ.get("FEDRT_MUTATION_SEED", "0")
BATCHES = 6
HANG_S = 600
"""Nothing here takes more than seconds: a command that waits for this long waits forever."""
STATE = (ROOT / "examples" / "round.json").read_text()
LAWS_STATE = json.dumps(state_under_laws())
FAULTY = (ROOT / "examples" / "unreliable.toml").read_text()
OWN_FLEET = (ROOT / "examples" / "own_fleet.toml").read_text()
TRACES = {
    "bandwidth": ("edge", 1e6),
    "channel": ("device", 7.5),
}
VALUES = {"bandwidth": "bandwidth_hz", "channel": "snr_db"}


def trace(rng: random.Random, section: str) -> bytes:
    """A damaged trace of two rounds, as text or as Parquet."""
    whom, value = TRACES[section]
    count = 5 if whom == "edge" else 20
    name = VALUES[section]
    rows = [
        f"{t},{r},{n},{value * rng.choice((1, 2))}"
        for t in range(2)
        for r in range(2)
        for n in range(count)
    ]
    text = "\n".join([f"global_round,edge_round,{whom},{name}", *rows, ""])
    kind = rng.choice(("bytes", "cell", "row", "head"))
    if kind == "bytes":
        return mutated_bytes(rng, text.encode())
    lines = text.splitlines()
    place = 0 if kind == "head" else rng.randrange(1, len(lines))
    if kind == "row":
        lines[place : place + 1] = rng.choice(([], [lines[place]] * 2, [""], [",,,"]))
    else:
        cells = lines[place].split(",")
        cells[rng.randrange(len(cells))] = rng.choice(
            ("", "nan", "inf", "-1", "1e400", "x", "9" * 400, "0x1", '"', "2.5", "\x1b[2J", "null")
        )
        lines[place] = ",".join(cells)
    return "\n".join(lines).encode()


def texts() -> list[str]:
    """Scenarios as files hold them: shipped, with faults, with every law, and a whole one."""
    whole = scenario_text(load_scenario("quickstart", ["rounds.global_rounds=2"]))
    laws = scenario_text(tiny("fleet.cluster_sizes=even", *EVERY_LAW))
    presets = ROOT / "src" / "fedrt" / "scenario" / "presets"
    shipped = [(presets / f"{name}.toml").read_text() for name in preset_names()]
    return [whole, FAULTY, laws, laws, OWN_FLEET, OWN_FLEET, *shipped]


def case_of(rng: random.Random, folder: Path) -> list[str]:
    """A damaged file and the command that is given it."""
    kind = rng.choice(("scenario", "scenario", "state", "trace"))
    if kind == "state":
        path = folder / "state.json"
        path.write_bytes(mutated_json(rng, rng.choice((STATE, LAWS_STATE))))
        return ["plan", str(path), "--policy", rng.choice(("fedrt", "fedrt-plus", "mll-sgd"))]
    if kind == "trace":
        section = rng.choice(list(TRACES))
        path = folder / "trace.csv"
        path.write_bytes(trace(rng, section))
        option = f"{section}={{kind='trace',file={json.dumps(str(path))}}}"
        few = ["--set", "rounds.global_rounds=2", "--set", option]
        return ["scenario", "check", "quickstart", *few]
    path = folder / "scenario.toml"
    path.write_bytes(mutated_toml(rng, rng.choice(texts())))
    shutil.copy(ROOT / "examples" / "own_fleet.csv", folder)
    # A file may ask for any number of rounds and devices, and gets them: here it is kept small.
    small = ["--set", "rounds.global_rounds=2", "--set", "rounds.edge_rounds=2"]
    small += ["--set", "fleet.num_devices=20", "--set", "fleet.num_edges=5"]
    if rng.random() < 0.5:
        return ["scenario", rng.choice(("check", "show")), str(path)]
    return ["estimate", str(path), "--policies", "fedrt", "--json", *small]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_inputs_end_in_an_answer_or_lines(batch, tmp_path, monkeypatch):
    failures = []
    for number in range(batch, CASES, BATCHES):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        words = case_of(random.Random(f"{SEED} input {number}"), folder)
        # A command that waits in code of other libraries hears no signal: this ends it for sure.
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        ended = outcome_of(*words)
        faulthandler.cancel_dump_traceback_later()
        try:
            assert_no_traceback(ended, " ".join(words)[:300])
        except AssertionError as error:
            failures.append(f"seed {SEED}, case {number}: {error}")
        shutil.rmtree(folder)
    assert not failures, "\n\n".join(failures)
