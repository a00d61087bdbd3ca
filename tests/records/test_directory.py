"""Run directories: the same bytes for the same seed, readable whenever the run is cut."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from support.children import LIMIT_S, environment
from support.tiny import as_options, tiny

from fedrt.cli import main
from fedrt.errors import InfeasibleError
from fedrt.policies import POLICIES
from fedrt.records import directory as directory_module
from fedrt.scenario import load_scenario
from fedrt.studies.estimates import estimate

TABLES = ("rounds.parquet", "edges.parquet", "links.parquet", "devices.parquet")
WHOLE = {*TABLES, "config.toml", "run.json", "environment.json", "summary.json"}


def read_all(folder: Path) -> int:
    """Read every file below a folder; how many. Only dot-files may be torn."""
    count = 0
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        count += 1
        match path.suffix:
            case ".parquet":
                assert parquet.read_table(path).num_rows > 0, path
            case ".json":
                assert json.loads(path.read_text())
            case ".toml":
                assert tomllib.loads(path.read_text())
            case _:
                raise AssertionError(f"what is {path}?")
    return count


def tables_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.parquet"))}


def test_a_finished_directory_holds_everything(tmp_path):
    scenario = tiny()
    results = estimate(scenario, ["fedrt", "mll-sgd"], [0, 5], tmp_path / "out", command="fedrt x")
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} == {
        "config.toml",
        "run.json",
        "environment.json",
        "comparison.json",
        *(f"{policy}-{seed}" for policy in ("fedrt", "mll-sgd") for seed in (0, 5)),
    }
    for i, seed in enumerate((0, 5)):
        run = out / f"mll-sgd-{seed}"
        assert {p.name for p in run.iterdir()} == WHOLE
        assert load_scenario(run / "config.toml") == scenario
        assert json.loads((run / "summary.json").read_text()) == results["mll-sgd"][i]
        said = json.loads((run / "run.json").read_text())
        expected = {"policy": "mll-sgd", "seed": seed, "command": "fedrt x"}
        assert said == {"format_version": 2, **expected}
        environment = json.loads((run / "environment.json").read_text())
        assert {"fedrt", "commit", "python", "libraries", "system", "processor", "cores"} <= set(
            environment
        )
        assert environment["libraries"]["numpy"] == np.__version__
    assert read_all(out) == 4 + 4 * len(WHOLE)
    # Readable by others where the folder is.
    assert all(p.stat().st_mode & 0o444 == 0o444 for p in out.rglob("*") if p.is_file())


@pytest.mark.parametrize(("devices", "rows"), [(1000, True), (1001, False)])
def test_device_rows_up_to_a_thousand_devices(devices, rows, tmp_path):
    scenario = tiny(
        f"fleet.num_devices={devices}", "fleet.cluster_sizes=even", "rounds.global_rounds=1"
    )
    for given, expected in ((None, rows), (True, True), (False, False)):
        out = tmp_path / str(given)
        estimate(scenario, ["ce-fedavg"], [0], out, device_rows=given)
        assert (out / "ce-fedavg-0" / "devices.parquet").exists() == expected


def test_same_seed_same_bytes_in_any_order_and_any_process(tmp_path):
    scenario = tiny('channel={kind="gauss-markov",mean_db=8,std_db=4,correlation=0.8}')
    estimate(scenario, list(POLICIES), [0, 1], tmp_path / "a")
    estimate(scenario, list(POLICIES)[::-1], [1, 0], tmp_path / "b")
    options = as_options('channel={kind="gauss-markov",mean_db=8,std_db=4,correlation=0.8}')
    command = [sys.executable, "-m", "fedrt", "estimate", *options, "--seeds", "1,0"]
    command += ["--policies", "static-t,mll-sgd,fedrt,fedrt-joint,fedrt-plus,ce-fedavg,static-r"]
    subprocess.run(
        [*command, "--out", str(tmp_path / "c"), "--json"],
        env=environment(PYTHONHASHSEED="7"),
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    first = tables_below(tmp_path / "a")
    assert len(first) == 7 * 2 * 4
    assert tables_below(tmp_path / "b") == first
    assert tables_below(tmp_path / "c") == first
    assert first["fedrt-0/rounds.parquet"] != first["fedrt-1/rounds.parquet"]


class Cut(KeyboardInterrupt):
    pass


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("every_round", [False, True])
def test_an_interrupted_run_reads(at, every_round, tmp_path, monkeypatch):
    if every_round:
        save = directory_module.RunDirectory.save
        monkeypatch.setattr(directory_module.RunDirectory, "save_sometimes", save)

    def start(policy, seed):
        def step(done):
            if policy == "static-t" and done.last.t == at:
                raise Cut

        return step

    out = tmp_path / "out"
    with pytest.raises(Cut):
        estimate(tiny(), ["fedrt", "static-t"], [0], out, progress=start)
    assert read_all(out) == 3 + len(WHOLE) + len(WHOLE) - 1
    assert not list(out.rglob(".*"))
    assert not (out / "static-t-0" / "summary.json").exists()
    assert not (out / "comparison.json").exists()
    kept = parquet.read_table(out / "static-t-0" / "rounds.parquet")
    assert kept["global_round"].to_pylist() == list(range(at + 1 if every_round else 1))


def test_interrupted_between_two_tables_rounds_never_run_ahead(tmp_path, monkeypatch):
    save, write = directory_module.RunDirectory.save, directory_module.write_whole
    monkeypatch.setattr(directory_module.RunDirectory, "save_sometimes", save)
    for stop in range(1, 9):
        calls = 0

        def counted(path, fill, stop=stop):
            nonlocal calls
            calls += 1
            if calls == stop:
                raise Cut
            write(path, fill)

        monkeypatch.setattr(directory_module, "write_whole", counted)
        out = tmp_path / str(stop)
        with pytest.raises(Cut):
            estimate(tiny(), ["fedrt"], [0], out)
        read_all(out)
        run = out / "fedrt-0"
        if (run / "rounds.parquet").exists():
            rounds = parquet.read_table(run / "rounds.parquet").num_rows
            per_round = {"edges": 6, "links": 3, "devices": 14}
            for name, rows in per_round.items():
                assert parquet.read_table(run / f"{name}.parquet").num_rows >= rounds * rows


SLOW = """
from pathlib import Path
from support.tiny import tiny
from fedrt.records.directory import RunDirectory
from fedrt.studies.estimates import estimate
RunDirectory.save_sometimes = RunDirectory.save
print("ready", flush=True)
estimate(tiny("rounds.global_rounds=5000"), ["ce-fedavg"], [0], Path({out!r}))
"""


@pytest.mark.parametrize("instant_s", [None, 0.0, 0.003, 0.011, 0.057])
def test_a_killed_run_reads(instant_s, tmp_path):
    """None: as it starts. Else so long after the first tables are there, while it saves on."""
    out = tmp_path / "out"
    rounds = out / "ce-fedavg-0" / "rounds.parquet"
    code = SLOW.format(out=str(out))
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE
    )
    try:
        assert child.stdout.readline() == b"ready\n"
        if instant_s is not None:
            while not rounds.exists():
                assert child.poll() is None
                time.sleep(0.001)
            time.sleep(instant_s)
        assert child.poll() is None
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=LIMIT_S)
        child.stdout.close()
    if instant_s is not None:
        assert read_all(out) == 3 + len(WHOLE) - 1
    elif out.exists():
        read_all(out)


def test_an_infeasible_run_keeps_the_rounds_before_it(tmp_path):
    trace = tmp_path / "trace.csv"
    rows = [
        f"{t},{r},{n},{-25 if (t, n) == (2, 4) else 12}"
        for t in range(4)
        for r in range(2)
        for n in range(7)
    ]
    trace.write_text("\n".join(["global_round,edge_round,device,snr_db", *rows]) + "\n")
    scenario = tiny(
        f'channel={{kind="trace",file="{trace}"}}',
        'control={budgets="strict"}',
        "fleet.energy_j_per_edge_round=1.5",
    )
    with pytest.raises(InfeasibleError):
        estimate(scenario, ["fedrt"], [0], tmp_path / "out")
    run = tmp_path / "out" / "fedrt-0"
    assert parquet.read_table(run / "rounds.parquet")["global_round"].to_pylist() == [0, 1]
    assert not (run / "summary.json").exists()


def estimate_into(out: Path) -> int:
    return main(["estimate", *as_options(), "--policies", "ce-fedavg", "--out", str(out)])


def test_an_existing_folder_is_refused_and_left_alone(tmp_path, capsys):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "note").write_text("mine")
    file.write_text("mine")
    for out in (folder, file):
        assert estimate_into(out) == 2
        text, err = capsys.readouterr()
        assert text == ""
        assert err.count("\n") == 1
        assert err.startswith(f"{out}: exists already")
    assert [p.name for p in folder.iterdir()] == ["note"]
    assert (folder / "note").read_text() == file.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "x", Path("/proc/fedrt"), tmp_path / ("x" * 300)):
        assert estimate_into(out) == 2
        text, err = capsys.readouterr()
        assert text == ""
        assert err.count("\n") == 1
        assert "cannot be made" in err


def test_a_full_disk_is_one_line_and_leaves_no_torn_file(tmp_path, capsys, monkeypatch):
    def full(table, path, **options):
        Path(path).write_bytes(b"PAR1 torn")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", full)
    assert estimate_into(tmp_path / "out") == 1
    text, err = capsys.readouterr()
    assert text == ""
    assert err.count("\n") == 1
    assert err.endswith("cannot be written: No space left on device\n")
    assert {p.name for p in (tmp_path / "out" / "ce-fedavg-0").iterdir()} == WHOLE - {
        *TABLES,
        "summary.json",
    }


def test_without_out_the_next_free_name_in_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert main(["estimate", *as_options(), "--policies", "ce-fedavg"]) == 0
        assert f"saved in runs/estimate-tiny-{number}" in capsys.readouterr().out
    assert sorted(os.listdir("runs")) == ["estimate-tiny-1", "estimate-tiny-2"]


def test_a_scenario_with_a_trace_is_kept_for_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{t},{r},{c},1e6" for t in range(4) for r in range(2) for c in range(3)]
    Path("b.csv").write_text("\n".join(["global_round,edge_round,edge,bandwidth_hz", *rows]))
    estimate(tiny('bandwidth={kind="trace",file="b.csv"}'), ["ce-fedavg"], [0], tmp_path / "out")
    monkeypatch.chdir("/")
    for config in (tmp_path / "out" / "config.toml", tmp_path / "out/ce-fedavg-0/config.toml"):
        assert load_scenario(config).bandwidth.file == str(tmp_path / "b.csv")
