"""`fedrt run` from outside: what it prints, how it ends, and when its directory is there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from kill_campaign import differences
from pyarrow import parquet
from support.children import LIMIT_S, environment
from support.paths import TESTS
from support.trained import TRAINING, start, train, trained

from fedrt.cli import main

OPTIONS = [word for text in TRAINING for word in ("--set", text)]


def run_main(*words):
    return main(["run", *OPTIONS, "--device", "cpu", *map(str, words)])


def test_json_is_one_object_and_nothing_else(tmp_path, capsys):
    assert run_main("--out", tmp_path / "run", "--json", "--target", "0.5") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    assert json.loads(out) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert list(json.loads(out)["targets"]) == ["0.5"]


def test_without_a_terminal_progress_is_lines_on_stderr(tmp_path, capsys):
    assert run_main("--out", tmp_path / "run", "--set", "rounds.global_rounds=20") == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"round {n} of 20" for n in range(2, 21, 2)]
    assert all("loss" in line and "simulated" in line for line in lines)
    assert "accuracy -" not in lines[0]  # evaluated every second round
    assert "final accuracy" in out
    assert out.endswith(f"saved in {tmp_path / 'run'}\n")


def test_folders_are_numbered_where_none_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    assert run_main("--policy", "support.trained:Moody", "--seed", "7", "--json") == 0
    assert run_main("--json") == 0
    assert sorted(os.listdir("runs")) == ["run-tiny-1", "run-tiny-2"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "2"], "--target = 2: must be"),
        (["--target", "nan"], "--target = NaN: must be"),
        (["--target", "high"], '--target = "high": must be'),
        (["--checkpoint-every", "0"], "--checkpoint-every = 0: must be a whole number"),
        (["--checkpoint-every", "1.5"], "--checkpoint-every = 1.5: must be a whole number"),
        (["--keep-checkpoints", "-1"], "--keep-checkpoints = -1: must be a whole number"),
        (["--keep-checkpoints", "inf"], "--keep-checkpoints = Infinity: must be a whole number"),
        (["--seed=-1"], "--seed -1: must be a whole number"),
        (["--seed", "0,1"], '--seed "0,1": must be a whole number'),
        (["--seed", ""], '--seed "": must be a whole number'),
        (["--seed", "1e99"], "--seed 1e+99: must be a whole number"),
        (["--policy", "best"], 'policy = "best": must be one of'),
        (["--policy", "nowhere:Best"], "nowhere cannot be imported"),
        (["--engine", "warp"], 'engine = "warp": must be one of'),
        (["--device", "warp"], "device = 'warp': cannot be used here"),
        (["--set", 'learning.dataset="cifar10"', "--data-dir", str(TESTS)], "cifar10"),
        (["--set", 'learning.model="best"'], 'model = "best": must be one of'),
        (["--set", "rounds.global_rounds=0"], "global_rounds = 0: must be"),
        (["--data-dir", "a\0b"], "--data-dir"),
        (["nowhere.toml"], "nowhere.toml"),
        (["--resume", ""], "--resume: takes everything from its directory"),
    ],
)
def test_bad_words_are_one_line_and_leave_nothing_behind(words, says, tmp_path, capsys):
    assert run_main("--out", tmp_path / "run", *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert says in err
    assert os.listdir(tmp_path) == []


def test_divergence_is_exit_4(tmp_path, capsys):
    words = ["--out", tmp_path / "run", "--set", "learning.model=support.trained:Brittle", "--json"]
    words += ["--engine", "sequential"]
    assert run_main(*words) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("global round 3, edge round ")
    assert err.count("\n") == 1
    assert (tmp_path / "run" / "checkpoints" / "000003.npz").exists()
    assert main(["run", "--allow-code", "--resume", str(tmp_path / "run"), "--json"]) == 4


def test_a_trace_is_found_from_wherever_one_goes_on(tmp_path, monkeypatch):
    rows = [f"{t},{r},{n},10" for t in range(5) for r in range(2) for n in range(7)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["global_round,edge_round,device,snr_db", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    assert run_main("--out", "run", "--set", 'channel={kind="trace",file="trace.csv"}') == 0
    (tmp_path / "run" / "summary.json").unlink()
    monkeypatch.chdir("/")
    assert main(["run", "--allow-code", "--resume", str(tmp_path / "run")]) == 0


SPY = """
import importlib.abc, os, sys

class Spy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "numba", "pyarrow", "sklearn", "scipy", "matplotlib", "pandas"):
            told = [n for n in ("config.toml", "run.json") if os.path.exists(f"run/{n}")]
            print("heavy", name, len(told), file=sys.stderr)

sys.meta_path.insert(0, Spy())
from fedrt.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_directory_is_there_before_anything_heavy_and_ctrl_c_says_how_to_go_on(tmp_path):
    """One long run from outside: its start, its middle, Ctrl-C, and its end.

    It pauses at every batch, half a second a round: it is far from its end when Ctrl-C comes.
    """
    leisurely = ("rounds.global_rounds=40", 'learning.model="support.trained:Leisurely"')
    long = [word for text in leisurely for word in ("--set", text)]
    command = [sys.executable, "-c", SPY, "run", *OPTIONS, *long, "--device", "cpu"]
    command += ["--engine", "sequential", "--out", "run"]
    child = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(FEDRT_TEST_PAUSE_S="0.02"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run = tmp_path / "run"
    try:
        limit = time.monotonic() + LIMIT_S
        while not (run / "checkpoints" / "000003.npz").exists():
            assert child.poll() is None, child.stderr.read()
            assert time.monotonic() < limit
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = (text.decode() for text in child.communicate(timeout=LIMIT_S))
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, err
    assert out == ""
    heavy = [line.split()[1:] for line in err.splitlines() if line.startswith("heavy")]
    assert {"torch", "numba", "pyarrow"} <= {name for name, _ in heavy}
    # But for what the user's own model imports: its source is part of what the folder keeps.
    assert {name for name, told in heavy if told != "2"} == {"torch"}
    assert "Traceback" not in err
    *_, stopped, last = err.splitlines()
    assert stopped == "stopped; go on with: fedrt run --resume run --allow-code"
    assert last == "interrupted"
    # The tables have caught up with the newest checkpoint.
    saved = max(int(path.stem) for path in (run / "checkpoints").iterdir())
    assert parquet.read_table(run / "rounds.parquet").num_rows == saved < 40
    done = subprocess.run(
        [sys.executable, "-m", "fedrt", *stopped.split(": fedrt ")[1].split(), "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert json.loads(done.stdout)["global_rounds"] == 40
    assert done.stderr.decode() == f"going on after global round {saved}\n"
    reference = train(tmp_path / "untouched", trained(*leisurely))
    assert differences(reference, run) == []


def test_the_words_to_go_on_can_be_pasted(tmp_path, monkeypatch, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedrt.api.training.carry_on", interrupted)
    assert run_main("--out", tmp_path / "my run") == 130
    assert (
        f"go on with: fedrt run --resume '{tmp_path}/my run' --allow-code\n"
        in capsys.readouterr().err
    )
    assert (tmp_path / "my run" / "config.toml").exists()


def test_ctrl_c_waits_for_a_write_and_a_second_one_changes_nothing(tmp_path, monkeypatch):
    from fedrt.records.checkpoint import Checkpoints

    run = start(tmp_path / "run", trained())
    before = Checkpoints.save

    def save(self, rounds, state):
        if rounds == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        before(self, rounds, state)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 130
    assert sorted(p.stem for p in (run / "checkpoints").iterdir()) == ["000001", "000002"]
    assert parquet.read_table(run / "rounds.parquet").num_rows == 2
    assert main(["run", "--allow-code", "--resume", str(run), "--json"]) == 0
    assert differences(train(tmp_path / "untouched", trained()), run) == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--workers", "100000"], "--workers = 100000: must be a whole number from 1 to 10000"),
        (["--chunk", "1e9"], "--chunk = 1000000000.0: must be a whole number from 1 to 10000000"),
        (["--device", "meta"], '--device = "meta": must be a device that can train'),
        (["--device", "meta:0"], '--device = "meta:0": must be a device that can train'),
    ],
)
def test_options_that_no_run_can_have(words, line, tmp_path, capsys):
    assert main(["run", *OPTIONS, "--out", str(tmp_path / "run"), *words]) == 2
    assert capsys.readouterr().err == line + "\n"
    assert not (tmp_path / "run").exists()
