"""Traces: what a file says is what happens, and one clear line for a file that cannot be used."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv, parquet
from support.tiny import as_options, tiny

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario.processes import ScaledTrace
from fedrt.units import linear_from_db
from fedrt.world.fleet import draw_fleet
from fedrt.world.processes import TraceLinks
from fedrt.world.simulated import SimulatedWorld

# Kind of trace -> key columns with their sizes in the tiny scenario, value column, a fair range.
KINDS = {
    "channel": (("global_round", "edge_round", "device"), (4, 2, 7), "snr_db", (0, 15)),
    "bandwidth": (("global_round", "edge_round", "edge"), (4, 2, 3), "bandwidth_hz", (1e6, 2e6)),
    "backhaul": (("global_round", "edge", "edge2"), (4, 3, 3), "bps", (1e6, 1e7)),
}


def columns(section: str, rounds: int = 4):
    """A whole trace in long form, links in one direction only, and its values as an array."""
    names, sizes, value, (low, high) = KINDS[section]
    table = np.random.default_rng(3).uniform(low, high, (rounds, *sizes[1:]))
    keys = np.indices(table.shape).reshape(3, -1)
    if section == "backhaul":
        table = np.triu(table, 1) + np.swapaxes(np.triu(table, 1), 1, 2)
        keys = keys[:, keys[1] < keys[2]]
    return {**dict(zip(names, keys, strict=True)), value: table[tuple(keys)]}, table


def save(path: Path, data) -> str:
    write = csv.write_csv if path.suffix == ".csv" else parquet.write_table
    write(pa.table(data), path)
    return str(path)


def world(section: str, file: str, *options: str) -> SimulatedWorld:
    more = "".join(f",{option}" for option in options)
    return SimulatedWorld(tiny(f'{section}={{kind="trace",file="{file}"{more}}}'), 0)


def seen(section: str, w: SimulatedWorld, t: int, r: int):
    if section == "backhaul":
        return w.backhaul_bps(t)
    observed = w.observe(t, r)
    return observed.snr if section == "channel" else observed.edge_bandwidth_hz


def expected(section: str, table, t: int, r: int):
    if section == "backhaul":
        return table[t]
    return linear_from_db(table[t, r]) if section == "channel" else table[t, r]


@pytest.mark.parametrize("section", KINDS)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_what_the_file_says_is_what_happens(section, suffix, tmp_path):
    data, table = columns(section)
    order = np.random.default_rng(0).permutation(len(data["global_round"]))
    shuffled = {name: column[order] for name, column in reversed(data.items())}
    path = tmp_path / f"trace{suffix.lower()}"
    save(path, shuffled)
    file = path.rename(path.with_suffix(suffix))
    w = world(section, str(file))
    for t in (3, 0, 2, 1):
        for r in (1, 0):
            # CSV keeps 17 digits or fewer, so not every bit: a few units in the last place.
            assert_allclose(seen(section, w, t, r), expected(section, table, t, r), rtol=1e-14)


@pytest.mark.parametrize("section", KINDS)
def test_repeat_starts_again(section, tmp_path):
    data, table = columns(section, rounds=3)
    w = world(section, save(tmp_path / "trace.parquet", data), "repeat=true")
    for t in range(10):
        assert_array_equal(seen(section, w, t, 1), expected(section, table, t % 3, 1))


def test_a_trace_longer_than_the_run_is_fine(tmp_path):
    data, table = columns("channel", rounds=9)
    w = world("channel", save(tmp_path / "trace.csv", data))
    assert_allclose(w.observe(3, 0).snr, linear_from_db(table[3, 0]))


def test_scale_multiplies(tmp_path):
    for section in ("bandwidth", "backhaul"):
        data, table = columns(section)
        w = world(section, save(tmp_path / f"{section}.parquet", data), "scale=2.5")
        assert_array_equal(seen(section, w, 1, 1), 2.5 * expected(section, table, 1, 1))


def test_links_both_ways_or_the_other_way_round(tmp_path):
    data, table = columns("backhaul")
    back = {**data, "edge": data["edge2"], "edge2": data["edge"]}
    both = {name: np.concatenate([data[name], back[name]]) for name in data}
    for name, given_columns in (("back", back), ("both", both)):
        w = world("backhaul", save(tmp_path / f"{name}.parquet", given_columns))
        assert_array_equal(w.backhaul_bps(2), table[2])


def test_a_trace_names_servers_by_their_keys(tmp_path):
    """The servers with keys 2, 0, 1 in a row; links join the first with each of the others."""
    data, table = columns("backhaul")
    fleet = replace(draw_fleet(tiny(), 0), edge_key=np.array([2, 0, 1]))
    graph = np.array([[False, True, True], [True, False, False], [True, False, False]])
    # By key: 2 with 0, and 2 with 1. The link of 0 with 1 is not needed.
    needed = data["edge2"] == 2
    file = save(tmp_path / "trace.parquet", {name: data[name][needed] for name in data})
    found = TraceLinks(ScaledTrace(file=file), fleet, tiny().rounds, graph).bps(1)
    assert_array_equal(found[0], [0.0, table[1, 2, 0], table[1, 2, 1]])
    file = save(tmp_path / "other.parquet", {name: data[name][~needed] for name in data})
    with pytest.raises(InputError) as caught:
        TraceLinks(ScaledTrace(file=file), fleet, tiny().rounds, graph)
    assert caught.value.lines[0].startswith(
        f"{file}: has no value for global_round 0, edge 0, edge2 2"
    )


def test_only_links_of_the_base_graph_are_needed(tmp_path):
    data, table = columns("backhaul")
    inside = data["edge"] == 0
    file = save(tmp_path / "star.csv", {name: column[inside] for name, column in data.items()})
    star = tiny(f'backhaul={{kind="trace",file="{file}"}}', 'base_graph={kind="star"}')
    assert_allclose(SimulatedWorld(star, 0).backhaul_bps(1)[0], table[1, 0])
    with pytest.raises(InputError, match="has no value for global_round 0, edge 1, edge2 2"):
        world("backhaul", file)


def lacking(row):
    return lambda data: {name: np.delete(column, row) for name, column in data.items()}


def with_value(name, row, value):
    def change(data):
        column = data[name].astype(np.float64 if isinstance(value, float) else object)
        column[row] = value
        return {**data, name: column if isinstance(value, float) else column.astype(str)}

    return change


def twice(data):
    return {name: np.append(column, column[5]) for name, column in data.items()}


def other_way(data):
    new = {"global_round": 1, "edge": 1, "edge2": 0, "bps": 1234.0}
    return {name: np.append(column, new[name]) for name, column in data.items()}


CASES = [
    ("channel", lacking(5), "has no value for global_round 0, edge_round 0, device 5"),
    ("channel", lacking([5, 20]), "device 5, nor for 1 more"),
    ("channel", lacking(range(42, 56)), "has 3 global rounds, the scenario 4"),
    ("channel", lacking(range(14)), "has no value for global_round 0"),
    ("channel", lacking(range(56)), "has no rows"),
    ("channel", twice, "edge_round 0, device 5 is given 2 times"),
    ("channel", with_value("snr_db", 9, 1e3), "snr_db = 1000 in row 9: must be a finite number"),
    ("channel", with_value("snr_db", 9, np.nan), "snr_db = nan in row 9"),
    ("channel", with_value("snr_db", 9, np.inf), "snr_db = inf in row 9"),
    ("channel", with_value("snr_db", 9, "low"), 'column snr_db has "low" in row 9'),
    ("channel", with_value("device", 3, 7.0), "device = 7 in row 3: must be a whole number from 0"),
    ("channel", with_value("device", 3, 1.5), "device = 1.5 in row 3"),
    ("channel", with_value("edge_round", 3, 2.0), "edge_round = 2 in row 3"),
    ("channel", with_value("global_round", 3, -1.0), "global_round = -1 in row 3"),
    ("channel", with_value("global_round", 3, 999_999.0), "has no value for global_round 4"),
    ("channel", lambda data: {**data, "extra": data["device"]}, "has the columns "),
    ("channel", lambda data: {n: data[n] for n in data if n != "device"}, "has the columns "),
    ("bandwidth", with_value("bandwidth_hz", 2, 1e16), "check the unit"),
    ("bandwidth", with_value("bandwidth_hz", 2, 0.0), "check the unit"),
    ("bandwidth", lacking(0), "has no value for global_round 0, edge_round 0, edge 0"),
    ("backhaul", with_value("bps", 2, -5.0), "bps = -5 in row 2"),
    ("backhaul", lacking(3), "has no value for global_round 1, edge 0, edge2 1"),
    ("backhaul", other_way, "must be the same"),
]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("section", "change", "words"), CASES, ids=[words for *_, words in CASES])
def test_a_trace_that_cannot_be_used_is_one_line(section, change, words, suffix, tmp_path):
    file = save(tmp_path / f"trace{suffix}", change(columns(section)[0]))
    with pytest.raises(InputError) as caught:
        world(section, file)
    (line,) = caught.value.lines
    assert line.startswith(f"{file}: ")
    assert words in line


def test_every_kind_of_problem_at_once(tmp_path):
    data = with_value("snr_db", 9, 1e3)(with_value("device", 3, 7.0)(columns("channel")[0]))
    with pytest.raises(InputError) as caught:
        world("channel", save(tmp_path / "trace.csv", data))
    assert len(caught.value.lines) == 2


HEADER = b"global_round,edge_round,device,snr_db\n"
FILES = {
    "missing.csv": (None, "cannot be read: "),
    "empty.csv": (b"", "cannot be read: Empty CSV file"),
    "header.csv": (HEADER, "has no rows"),
    "ragged.csv": (HEADER + b"0,0,0\n", "cannot be read: CSV parse error"),
    "hole.csv": (HEADER + b"0,0,0,1\n0,0,1,\n", "snr_db = nan in row 1"),
    "bytes.csv": (b"\xff\xfe,edge_round\n1,2\n", "cannot be read: "),
    "newline.csv": (b'"a\nb"\n1\n', "has the columns a"),
    "long.csv": (HEADER + b"0,0,0," + b"z" * 9000 + b"\n", "must be a number"),
    "torn.parquet": (b"PAR1", "cannot be read: "),
    "trace.txt": (HEADER, "must end in .csv or .parquet"),
    "trace": (HEADER, "must end in .csv or .parquet"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_command_says_one_line_and_writes_nothing(name, tmp_path, monkeypatch, capsys):
    content, words = FILES[name]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content)
    before = sorted(os.listdir())
    options = as_options(f'channel={{kind="trace",file="{name}"}}')
    assert main(["estimate", *options, "--policies", "ce-fedavg"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert len(err) < 300
    assert err.startswith(f"{name}: ")
    assert words in err
    assert sorted(os.listdir()) == before


def test_a_trace_is_found_from_its_scenario_file(tmp_path, capsys):
    data, _ = columns("channel")
    save(tmp_path / "trace.csv", data)
    text = '[channel]\nkind = "trace"\nfile = "trace.csv"\n'
    (tmp_path / "own.toml").write_text('extends = "quickstart"\n' + text)
    sizes = ["fleet.num_edges=3", "fleet.num_devices=7", "rounds.global_rounds=4"]
    options = [word for size in sizes for word in ("--set", size)]
    out = ["--out", str(tmp_path / "out"), "--policies", "ce-fedavg"]
    assert main(["estimate", str(tmp_path / "own.toml"), *options, *out]) == 0
    assert "ce-fedavg" in capsys.readouterr().out


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 700), st.binary(max_size=3), st.integers(0, 3))
def test_fuzz_torn_files(tmp_path, at, junk, lost):
    path = tmp_path / "trace.csv"
    if at == 0 or not path.exists():
        save(path, columns("channel")[0])
    whole = path.read_bytes()
    torn = tmp_path / "torn.csv"
    torn.write_bytes(whole[:at] + junk + whole[at + lost :])
    lines = []
    try:
        world("channel", str(torn))
    except InputError as error:
        lines = error.lines
    assert all("\n" not in line and len(line) < 400 for line in lines)
