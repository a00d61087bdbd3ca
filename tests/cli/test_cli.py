"""The command line: exit codes, one line per problem, nothing but the answer on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.children import LIMIT_S
from support.junk import broken
from support.paths import ROOT

from fedrt.api.asked import ALL, Objects, read_policies
from fedrt.cli import build_parser, main
from fedrt.decision import plan_round
from fedrt.errors import FedrtError
from fedrt.policies import POLICIES
from fedrt.scenario.load import load_scenario, scenario_text
from fedrt.scenario.tables.fields import table_of
from fedrt.scenario.tables.toml_text import toml_text
from fedrt.system.files import write_text

STATE = ROOT / "examples" / "round.json"


def fedrt(*args, **kwargs):
    command = [sys.executable, "-m", "fedrt", *map(str, args)]
    return subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S, **kwargs)


def test_plan_prints_the_answer_and_nothing_else(capsys):
    assert main(["plan", str(STATE), "--policy", "static-r"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    assert json.loads(out) == plan_round(json.loads(STATE.read_text()), "static-r")


def test_plan_reads_stdin_and_is_the_same_in_another_process(capsys):
    assert main(["plan", str(STATE)]) == 0
    done = fedrt("plan", "-", input=STATE.read_bytes())
    assert done.returncode == 0
    assert done.stdout.decode() == capsys.readouterr().out


def test_infeasible_is_best_effort_or_exit_3_when_strict(tmp_path, capsys):
    state = json.loads(STATE.read_text())
    state["edges"][1]["devices"][0]["energy_allowance_j"] = -1
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    assert main(["plan", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "best-effort"
    assert main(["plan", str(path), "--strict"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("state.edges[1].devices[0].energy_allowance_j = -1: ")


def test_an_unused_contraction_limit_is_said(tmp_path, capsys):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(json.loads(STATE.read_text()) | {"contraction_limit": 0.5}))
    assert main(["plan", str(path)]) == 0
    assert "fedrt does not use state.contraction_limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["fly"],
        ["plan"],
        ["plan", "no-such-file.json"],
        ["plan", str(ROOT)],
        ["plan", str(ROOT / "LICENSE")],
        ["plan", str(STATE), "--policy", "best"],
        ["plan", str(STATE), "--polic"],
        ["plan", "a\0b"],
        ["scenario"],
        ["scenario", "show", "quickstrat"],
        ["scenario", "check", str(ROOT / "LICENSE")],
        ["scenario", "check", str(ROOT)],
        ["scenario", "check", "quickstart", "--set", "fleet"],
        ["scenario", "check", "quickstart", "--set", "fleet.num_devices=lots"],
        ["scenario", "show", "quickstart", "--set", "fleet.colour=red"],
    ],
)
def test_bad_calls_end_with_2_and_one_line(args, capsys):
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe{}")
    for done in (fedrt("plan", "-", input=path.read_bytes()), fedrt("scenario", "check", path)):
        assert done.returncode == 2
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == 1


def test_a_reader_that_goes_away_is_no_traceback():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m fedrt scenario list | head -c 1"],
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert b"Traceback" not in done.stderr


def test_help_loads_nothing_heavy():
    code = (
        "import sys, fedrt.cli; fedrt.cli.build_parser().format_help();"
        "print(sorted({'numpy', 'numba', 'scipy', 'rich', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_scenario_commands(capsys):
    assert main(["scenario", "list"]) == 0
    assert "paper-literal/femnist" in capsys.readouterr().out
    assert main(["scenario", "show", "city", "--set", "fleet.num_devices=500"]) == 0
    assert "num_devices = 500" in capsys.readouterr().out
    assert main(["scenario", "check", "paper/femnist"]) == 0
    assert capsys.readouterr().out == "paper/femnist: valid, 72 devices on 8 edge servers\n"


@pytest.mark.parametrize(
    ("path", "options", "rule"),
    [
        ("nowhere:Network", [], "--allow-code lets it"),
        ("nowhere:Network", ["--allow-code"], "nowhere cannot be imported"),
        ("python:Network", ["--allow-code"], "was an object of a Python program"),
        ("json:nothing", ["--allow-code"], "json has no nothing"),
    ],
)
@pytest.mark.parametrize("name", ["model", "optimiser", "dataset"])
def test_a_scenario_whose_code_a_run_refuses_is_not_valid(
    path, options, rule, name, tmp_path, capsys
):
    text = scenario_text(load_scenario("quickstart"))
    value = f'"{path}"' if name in ("model", "dataset") else f'{{kind = "{path}"}}'
    lines = [line for line in text.splitlines() if not line.startswith(f"{name} = ")]
    lines.insert(lines.index("[learning]") + 1, f"{name} = {value}")
    file = tmp_path / "scenario.toml"
    file.write_text("\n".join(lines))
    assert main(["scenario", "check", str(file), *options]) == 2
    said = capsys.readouterr().err
    assert f"scenario.learning.{name}" in said
    assert rule in said


@settings(max_examples=150, deadline=None)
@given(broken(json.loads(STATE.read_text())))
def test_fuzz_plan_command(state):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        path.write_text(json.dumps(state))
        assert main(["plan", str(path)]) in (0, 2)
        assert os.listdir(folder) == ["state.json"]


CLASSES = (
    'fleet.classes=[{name="a",share=0.5,edges=[0,1],cpu_max_hz=7e8},{name="b",count=1,per_edge=true},'
    '{name="c",energy_budget_j="none"}]'
)
VALID = table_of(load_scenario("quickstart", [CLASSES, "bandwidth.hz=[1e6,2e6,3e6,4e6,5e6]"]))


def is_toml(value) -> bool:
    """Whether TOML can hold the value at all: it has no null."""
    if isinstance(value, dict):
        return all(map(is_toml, value.values()))
    if isinstance(value, list):
        return all(map(is_toml, value))
    return value is not None


@settings(max_examples=250, deadline=None)
@given(broken(VALID).filter(is_toml))
def test_fuzz_scenario_check_command(table):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.toml"
        try:
            text = toml_text(table).encode("utf-8", errors="surrogatepass")
        except (TypeError, ValueError):
            return
        path.write_bytes(text)
        assert main(["scenario", "check", str(path)]) in (0, 2)


@settings(max_examples=100, deadline=None)
@given(broken({"a": {"b": 1}}))
def test_fuzz_settings(table):
    assert main(["scenario", "check", "quickstart", "--set", f"fleet.num_edges={table}"]) == 2


DIGITS, HEX = "9" * 5000, "0x" + "f" * 5000


@pytest.mark.parametrize("number", [DIGITS, HEX, f"[{HEX}]"])
@pytest.mark.parametrize(
    "args",
    [
        ["scenario", "check", "quickstart", "--set", "fleet.num_devices={}"],
        ["scenario", "check", "quickstart", "--set", "fleet.tx_power_w={}"],
        ["scenario", "check", "quickstart", "--set", "learning.learning_rate={}"],
        ["sweep", "quickstart", "--vary", "fleet.num_devices={}"],
        ["size", "quickstart", "--deadline", "1h", "--vary", "fleet.num_devices=1..{}"],
        ["front", "quickstart", "--budgets", "{}"],
    ],
)
def test_numbers_of_thousands_of_digits_are_one_line(args, number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([word.format(number) for word in args]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 200


def test_text_that_no_file_can_hold_is_refused(tmp_path, capsys):
    name = os.fsdecode(b'name="caf\xe9"')
    assert main(["estimate", "--set", name, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("scenario.name = ")
    assert err.endswith(", in UTF-8 and without control characters\n")
    kind = os.fsdecode(b'channel={kind="a:B",x="caf\xe9"}')
    path = tmp_path / "file.toml"
    with pytest.raises(FedrtError, match="cannot be written"):
        write_text(path, scenario_text(load_scenario("quickstart", [kind])))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("plan - <&-", 2, "stdin: cannot be read: it is closed"),
        ("scenario list >&-", 1, "stdout: is closed: there is nowhere to print to"),
        (f"plan {STATE} >/dev/full", 1, "stdout: cannot be written: No space left on device"),
        ("scenario list >/dev/full", 1, "stdout: cannot be written: No space left on device"),
        ("plan no.json 2>&-", 2, None),
    ],
)
def test_streams_that_are_closed_or_full(command, code, line):
    shell = ["bash", "-c", f"{sys.executable} -m fedrt {command}"]
    done = subprocess.run(shell, capture_output=True, check=False, timeout=LIMIT_S)
    assert done.returncode == code
    assert done.stderr.decode() == ("" if line is None else line + "\n")
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('channel={kind="trace",file="no.csv"}', "no.csv: cannot be read"),
        ('bandwidth={kind="no_module:X"}', "no_module cannot be imported"),
        ("learning.model_bits=measured", None),
        ("fleet.cycles_per_sample=measured", None),
    ],
)
def test_check_makes_the_world(setting, words, capsys):
    assert main(["scenario", "check", "quickstart", "--set", setting]) == (2 if words else 0)
    out, err = capsys.readouterr()
    assert (words or "") in err
    assert bool(out) == (words is None)


def test_a_contraction_limit_without_links_is_said(tmp_path, capsys):
    state = json.loads(STATE.read_text()) | {"contraction_limit": 0.5}
    for name in ("backhaul_bps", "consensus_distance", "consensus_limit"):
        del state[name]
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    assert main(["plan", str(path), "--policy", "fedrt-plus"]) == 0
    err = capsys.readouterr().err
    assert err == "note: state.contraction_limit is not used without state.backhaul_bps\n"


@pytest.mark.parametrize("command", ["compare", "estimate", "sweep", "front", "bound"])
def test_commands_that_compare_take_every_shipped_policy(command):
    args = build_parser().parse_args([command])
    assert read_policies(args.policies or ALL, Objects()) == list(POLICIES)
    assert "fedrt-plus" in POLICIES
