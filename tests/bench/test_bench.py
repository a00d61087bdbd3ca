"""The command: its tables, its folder, own policies, several processes, stopping and going on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.children import LIMIT_S, environment
from support.paths import ROOT

import fedrt
from fedrt.bench import bounds
from fedrt.bench.worlds import SEEDS, WORLDS, load_world, why_no_bound, world_digest
from fedrt.cli import main
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.studies.study import Points

SMALL = ["bench", "--worlds", "digits", "--seeds", "0", "--jobs", "1"]
TWO = ["--policies", "fedrt-plus,tifl"]


def test_the_tables_say_who_did_what(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*SMALL, *TWO]) == 0
    shown = capsys.readouterr().out
    assert "bench: the same work, 1 world, 1 seed" in shown
    assert "leaves devices out" in shown
    assert "saved in runs/bench-digits-1" in shown
    data = json.loads((tmp_path / "runs/bench-digits-1/bench.json").read_text())
    plus, tifl = (data["worlds"]["digits"]["policies"][name] for name in ("fedrt-plus", "tifl"))
    assert 0 < plus["above"]["mean"] < 0.05
    assert tifl["above"] is None
    page = (tmp_path / "runs/bench-digits-1/page.html").read_text()
    assert '"kind":"bench"' in page


def test_processes_give_the_same_as_one_and_an_own_policy_joins(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "from fedrt.policies.ce_fedavg import CEFedAvg\n"
        "class Mine(CEFedAvg):\n"
        "    name = 'my own'\n"
    )
    monkeypatch.chdir(tmp_path)
    policies = ["--policies", "ce-fedavg,tifl,mine:Mine"]
    assert main([*SMALL, *policies, "--out", "one", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*SMALL[:-1], "2", *policies, "--out", "two", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == alone
    found = alone["worlds"]["digits"]["policies"]
    assert alone["policies"]["mine:Mine"] == "my own"
    assert found["mine:Mine"]["above"] == found["ce-fedavg"]["above"]


def test_it_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    parts = 2
    policies = ["--policies", "ce-fedavg,fedrt,tifl"]
    assert main([*SMALL, *policies, "--out", str(tmp_path / "whole"), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    once, made = Points.once, []

    def stopped(self, asked, make, *rest):
        if len(made) == parts:
            raise KeyboardInterrupt
        made.append(asked)
        return once(self, asked, make, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Points, "once", stopped)
        assert main([*SMALL, *policies, "--out", str(tmp_path / "out"), "--json"]) == 130
    assert f"go on with: fedrt bench --resume {tmp_path / 'out'}" in capsys.readouterr().err
    assert len((tmp_path / "out/points.jsonl").read_bytes().splitlines()) == parts
    assert main(["bench", "--resume", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == whole


def living_children(pid: int) -> set[int]:
    """The processes that a process has started and that still run."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(folder.name))
    return found


WAITS = """
import time
from pathlib import Path
from fedrt.policies.ce_fedavg import CEFedAvg

class Waits(CEFedAvg):
    name = "waits"

    def plan(self, seen, books):
        while not Path("go").exists():
            time.sleep(0.01)
        return super().plan(seen, books)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_process_leaves_no_other_behind_and_keeps_what_it_had(
    sent, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waits.py").write_text(WAITS)
    points = tmp_path / "out" / "points.jsonl"
    asked = [*SMALL[:-1], "2", "--policies", "ce-fedavg,waits:Waits", "--out", "out"]
    command = [sys.executable, "-m", "fedrt", *asked]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
        # One of the two policies has ended, and the other waits.
        wait_until(lambda: points.is_file() and points.read_bytes().endswith(b"\n"))
        started = living_children(process.pid)
        process.send_signal(sent)
        process.wait(LIMIT_S)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    assert len(started) >= 2
    kept = points.read_bytes()
    (tmp_path / "go").touch()
    assert main(["bench", "--resume", "out", "--json", "--jobs", "1"]) == 2
    assert "--allow-code lets it" in capsys.readouterr().err
    assert main(["bench", "--resume", "out", "--json", "--jobs", "1", "--allow-code"]) == 0
    found = json.loads(capsys.readouterr().out)["worlds"]["digits"]["policies"]
    assert found["waits:Waits"]["time_s"] == found["ce-fedavg"]["time_s"]
    assert points.read_bytes().startswith(kept)


def wait_until(holds) -> None:
    until = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_object_of_python_code_joins_all_others(tmp_path):
    class Quick(CEFedAvg):
        pass

    found = fedrt.bench(
        "digits", policies=["fedrt", Quick], seeds=0, jobs=2, out=tmp_path / "out", progress=False
    )
    assert list(found.data["policies"]) == ["fedrt", "python:Quick"]
    assert list(found.summary["policy"]) == ["fedrt", "python:Quick"]
    assert found.data["worlds"]["digits"]["policies"]["python:Quick"]["same_work"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--worlds", "digit"], "digit"),
        (["--worlds", "digits,digits"], "must name digits only once"),
        (["--worlds", "digits,"], "without gaps"),
        (["--jobs", "0"], "--jobs"),
        (["--jobs", "many"], "--jobs"),
        (["--policies", "fedrt-pluss"], "fedrt-pluss"),
        (["--seeds", "x"], "--seeds"),
        (["--policies", "all,fedrt"], "must name fedrt only once"),
        (["--bounds", "--worlds", "city,faults"], "--bounds: the worlds city, faults have none"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(words, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert line in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# --- bounds ---------------------------------------------------------------------------------------


def test_every_world_has_its_bounds_and_they_are_of_these_worlds():
    kept = bounds.read_bounds()
    for name in WORLDS:
        scenario = load_world(name)
        if why_no_bound(scenario) is None:
            for seed in SEEDS:
                assert bounds.kept_bound(kept, name, seed, scenario) > 0
        else:
            assert name not in kept


def test_a_bound_is_made_again_as_it_was():
    made, kept = bounds.make_bound("digits", 0), bounds.read_bounds()["digits"]["0"]
    assert made["digest"] == kept["digest"]
    assert made["raised_devices"] == kept["raised_devices"]
    # The search for prices ends by a tolerance of its own: other processors round other steps.
    assert made["time_s"] == pytest.approx(kept["time_s"], rel=1e-6)


def test_a_world_that_has_changed_is_one_line(tmp_path, monkeypatch, capsys):
    kept = json.loads(bounds.FILE.read_text())
    kept["worlds"]["digits"]["0"]["digest"] = "0" * 32
    (tmp_path / "bounds.json").write_text(json.dumps(kept))
    monkeypatch.setattr(bounds.read_bounds, "__defaults__", (tmp_path / "bounds.json",))
    assert main([*SMALL, *TWO, "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    line = "bench world digits, seed 0: has changed since its bound was made; make it anew with"
    assert (out, err) == ("", f"{line} --bounds\n")
    assert not (tmp_path / "out").exists()


def test_bounds_are_put_beside_those_that_are_there(tmp_path):
    file = tmp_path / "bounds.json"
    bounds.save_bounds({"ring": {"1": {"time_s": 1.0}}}, file)
    bounds.save_bounds({"digits": {"0": {"time_s": 2.0}}, "ring": {"0": {"time_s": 3.0}}}, file)
    assert bounds.read_bounds(file) == {
        "ring": {"0": {"time_s": 3.0}, "1": {"time_s": 1.0}},
        "digits": {"0": {"time_s": 2.0}},
    }


def test_a_digest_is_of_settings_trace_and_seed():
    traced = load_world("traced")
    assert world_digest(traced, 0) != world_digest(traced, 1)
    assert world_digest(traced, 0) != world_digest(traced.with_(rounds={"edge_rounds": 1}), 0)
    assert str(ROOT) not in json.dumps(bounds.read_bounds())


def test_the_synthetic_trace_is_made_again_as_it_was():
    import bench_trace

    assert bench_trace.FILE.read_text() == bench_trace.trace_text()
