"""Sweeps, sizings, fronts and bounds that are stopped keep what they have and go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedrt.cli import main
from fedrt.studies.study import Points, opened_points

FEW = ["--set", "rounds.global_rounds=2", "--seeds", "0,1"]
STUDIES = {
    "sweep": ["--vary", "bandwidth.scale=1,2,4", "--policies", "fedrt,ce-fedavg", *FEW],
    "front": ["--budgets", "0.05,0.1,0.2", "--policies", "fedrt,ce-fedavg", *FEW],
    "size": ["--vary", "bandwidth.scale=1..8", "--deadline", "15s", "--policy", "fedrt", *FEW],
    "bound": ["--policies", "fedrt,ce-fedavg", *FEW],
}
EVERY = pytest.mark.parametrize("kind", STUDIES)


def begin(kind, out, *more):
    return main([kind, "quickstart", *STUDIES[kind], *more, "--json", "--out", str(out)])


def outcome(out: Path) -> dict[str, bytes]:
    """Everything that came out, but for what says when and how."""
    names = [p.name for p in out.iterdir() if p.suffix in (".json", ".csv", ".jsonl")]
    return {n: (out / n).read_bytes() for n in names if n not in ("run.json", "environment.json")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Every study from beginning to end."""
    folder = tmp_path_factory.mktemp("whole")
    for kind in STUDIES:
        assert begin(kind, folder / kind) == 0
    return folder


def stop_after(monkeypatch, parts, stop=KeyboardInterrupt):
    """Have a study stopped after so many parts; what counts the parts it has worked out."""
    once, made = Points.once, []

    def counted(self, asked, make, *rest):
        def count():
            if len(made) == parts:
                raise stop
            made.append(asked)
            return make()

        return once(self, asked, count, *rest)

    monkeypatch.setattr(Points, "once", counted)
    return made


@EVERY
@pytest.mark.parametrize("parts", [0, 1, 3])
def test_a_study_goes_on_where_it_was_stopped(kind, parts, whole, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        stop_after(patch, parts)
        assert begin(kind, out) == 130
    assert f"go on with: fedrt {kind} --resume {out}" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        made = stop_after(patch, None)
        assert main([kind, "--resume", str(out), "--json"]) == 0
    total = len((whole / kind / "points.jsonl").read_bytes().splitlines())
    assert len(made) == total - parts
    assert outcome(out) == outcome(whole / kind)
    assert json.loads(capsys.readouterr().out) == json.loads((out / f"{kind}.json").read_text())


@EVERY
def test_a_finished_study_says_its_answer_again(kind, whole, monkeypatch, capsys):
    before = outcome(whole / kind)
    with monkeypatch.context() as patch:
        made = stop_after(patch, 0)
        assert main([kind, "--resume", str(whole / kind)]) == 0
    assert made == []
    assert outcome(whole / kind) == before
    assert f"saved in {whole / kind}" in capsys.readouterr().out


@EVERY
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_keeps_what_it_had(kind, sent, whole, tmp_path):
    """The process kills itself in its third part: no clock decides when."""
    out = tmp_path / "out"
    words = [kind, "quickstart", *STUDIES[kind], "--json", "--out", str(out)]
    program = f"""
import os, sys
from fedrt.cli import main
from fedrt.studies.study import Points
once, parts = Points.once, []
def counted(self, asked, make, *rest):
    def count():
        parts.append(asked)
        if len(parts) == 3:
            os.kill(os.getpid(), {int(sent)})
        return make()
    return once(self, asked, count, *rest)
Points.once = counted
sys.exit(main({words!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == (-9 if sent == signal.SIGKILL else 143)
    assert "Traceback" not in done.stderr
    assert len((out / "points.jsonl").read_bytes().splitlines()) == 2
    assert main([kind, "--resume", str(out), "--json"]) == 0
    assert outcome(out) == outcome(whole / kind)
    assert not list(tmp_path.rglob(".*"))


def test_a_line_that_was_cut_or_damaged_is_worked_out_anew(whole, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert begin("sweep", out) == 0
    points = out / "points.jsonl"
    text = points.read_text()
    first, _, *rest = text.splitlines()
    points.write_text("\n".join([first.replace("0.", "1.", 1), "{}", "[" * 100_000, *rest])[:-20])
    made = stop_after(monkeypatch, None)
    assert main(["sweep", "--resume", str(out), "--json"]) == 0
    assert len(made) == 3
    assert outcome(out)["sweep.json"] == outcome(whole / "sweep")["sweep.json"]


CHANGES = {
    "the scenario": ("base.toml", "tx_power_w = 0.1", "tx_power_w = 0.2"),
    "what was asked for": ("run.json", '"seeds": "0,1"', '"seeds": "0,2"'),
    "the code of fedrt": ("run.json", '"code": "', '"code": "0'),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_study_is_refused(what, whole, tmp_path, capsys):
    out = Path(shutil.copytree(whole / "sweep", tmp_path / "out"))
    name, old, new = CHANGES[what]
    text = (out / name).read_text()
    assert old in text
    (out / name).write_text(text.replace(old, new))
    assert main(["sweep", "--resume", str(out)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{out}: cannot go on: {what}")
    assert err.count("\n") == 1


def test_a_trace_that_changed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{t},{r},{c},1e6\n" for t in range(2) for r in range(2) for c in range(5))
    trace = tmp_path / "b.csv"
    trace.write_text("global_round,edge_round,edge,bandwidth_hz\n" + rows)
    setting = "bandwidth={kind='trace',file='b.csv'}"
    words = ["--vary", "backhaul.scale=1,2", "--policies", "fedrt", *FEW, "--set", setting]
    assert main(["sweep", "quickstart", *words, "--out", "out"]) == 0
    assert main(["sweep", "--resume", "out"]) == 0
    trace.write_text(trace.read_text().replace("1e6", "2e6"))
    capsys.readouterr()
    assert main(["sweep", "--resume", "out"]) == 2
    assert "the scenario or a trace it names changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--resume", "OUT", "--seeds", "3"], "not --seeds"),
        (["quickstart", "--resume", "OUT"], "not SCENARIO"),
        (["--resume", "OUT", "--set", "x=1"], "not --set"),
        (["--resume", "OUT/no"], "is not a study: it has no run.json"),
        ([], "the following arguments are required: scenario, --vary"),
        (["quickstart"], "the following arguments are required: --vary"),
    ],
)
def test_what_cannot_be_gone_on_with_is_one_line(words, line, whole, capsys):
    here = [word.replace("OUT", str(whole / "sweep")) for word in words]
    assert main(["sweep", *here]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_other_folders_are_no_study(whole, capsys):
    assert main(["size", "--resume", str(whole / "sweep")]) == 2
    assert "is no study of fedrt size" in capsys.readouterr().err


@pytest.mark.parametrize("value", [True, [1], {"a": 1}, "[", "\x1b", None, ["bandwidth.scale=9"]])
@pytest.mark.parametrize("name", ["vary", "policies", "seeds", "kind"])
def test_a_strangers_folder_is_refused_in_one_line(name, value, whole, tmp_path, capsys):
    out = Path(shutil.copytree(whole / "sweep", tmp_path / "out"))
    run = json.loads((out / "run.json").read_text())
    run["study"][name] = value
    (out / "run.json").write_text(json.dumps(run))
    assert main(["sweep", "--resume", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_points_are_never_reached_through_a_link(whole, tmp_path, capsys):
    out = Path(shutil.copytree(whole / "sweep", tmp_path / "out"))
    precious = tmp_path / "precious"
    precious.write_text("no newline at the end")
    (out / "points.jsonl").unlink()
    (out / "points.jsonl").symlink_to(precious)
    assert main(["sweep", "--resume", str(out)]) == 2
    assert "points.jsonl" in capsys.readouterr().err
    assert precious.read_text() == "no newline at the end"


def test_two_processes_are_not_at_one_study(whole, capsys):
    with opened_points(whole / "sweep"):
        assert main(["sweep", "--resume", str(whole / "sweep")]) == 2
    assert "another process is at this study" in capsys.readouterr().err


def test_a_bound_of_a_run_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--policies", "fedrt", "--set", "rounds.global_rounds=2", "--out", "run"]
    assert main(["estimate", "quickstart", *words]) == 0
    assert main(["bound", "--run", "run/fedrt-0", "--json", "--out", "whole"]) == 0
    first = capsys.readouterr().out
    os.chdir("/")
    made = stop_after(monkeypatch, 0)
    assert main(["bound", "--resume", str(tmp_path / "whole"), "--json"]) == 0
    assert capsys.readouterr().out == first.splitlines()[-1] + "\n"
    assert made == []


def test_a_policy_whose_code_changed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "from fedrt.policies.fedrt import FedRT\nclass Mine(FedRT):\n    name = 'mine'\n"
    (tmp_path / "own_study_policy.py").write_text(code)
    words = ["--vary", "bandwidth.scale=1,2", "--policies", "own_study_policy:Mine", *FEW]
    assert main(["sweep", "quickstart", *words, "--out", "out"]) == 0
    assert main(["sweep", "--resume", "out", "--allow-code"]) == 0
    (tmp_path / "own_study_policy.py").write_text(code + "    other = 1\n")
    capsys.readouterr()
    assert main(["sweep", "--resume", "out", "--allow-code"]) == 2
    assert "cannot go on: the code of a policy changed" in capsys.readouterr().err


def test_a_channel_whose_code_changed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_study_channel.py").write_text(
        "import numpy as np\n"
        "from own_study_gain import DB\n"
        "class Mine:\n"
        "    def __init__(self, fleet, seed, **others):\n"
        "        self.snr = np.full(len(fleet.device_key), DB)\n"
        "    def snr_db(self, t, r):\n"
        "        return self.snr\n"
    )
    (tmp_path / "own_study_gain.py").write_text("DB = 5.0\n")
    words = ["--set", "channel.kind=own_study_channel:Mine", "--set", "learning.model=not_there:M"]
    words += ["--vary", "bandwidth.scale=1,2", "--policies", "fedrt", *FEW]
    assert main(["sweep", "quickstart", *words, "--out", "out"]) == 0
    assert main(["sweep", "--resume", "out", "--allow-code"]) == 0
    (tmp_path / "own_study_gain.py").write_text("DB = 6.0\n")
    capsys.readouterr()
    assert main(["sweep", "--resume", "out", "--allow-code"]) == 2
    said = capsys.readouterr().err
    assert "cannot go on: the code of a channel, bandwidth or backhaul changed" in said
