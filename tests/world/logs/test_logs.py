"""Logs in the published formats, made here: what they say is what the trace has."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny import tiny

import fedrt
from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.world.simulated import SimulatedWorld

HEAD_4G = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,"
    "DL_bitrate,UL_bitrate,State,NRxRSRP,NRxRSRQ,ServingCell_Lon,ServingCell_Lat,"
    "ServingCell_Distance"
)
HEAD_5G = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,"
    "DL_bitrate,UL_bitrate,State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,"
    "RAWCELLID,NRxRSRP,NRxRSRQ"
)


def row_4g(second: int, snr="7.5", kbps="1000") -> str:
    when = f"2018.01.31_23.{59 - 1 + second // 60:02d}.{second % 60:02d}"
    return f"{when},-8.5,51.8,4,A,2,LTE,-100,-14,{snr},6,-94,{kbps},19,D,-,-,-8.4,51.8,609.7"


def row_5g(second: int, snr="7.5", kbps="1000") -> str:
    when = f"2019.12.16_13.{40 + second // 60:02d}.{second % 60:02d}"
    return f"{when},-8.4,51.9,0,B,12,5G,-98,-13,{snr},10,-,{kbps},3,D,-,-,-,-,-,C,A,B,1,-99,-1"


def row_ghent(second: int, size="125000", ms="1000") -> str:
    return f"{1453121750399 + 1000 * second} {1000 * (second + 1)} 51.03 3.73 {size} {ms}"


ROWS = {"raca-4g": (HEAD_4G, row_4g), "raca-5g": (HEAD_5G, row_5g), "ghent": (None, row_ghent)}


def save(path: Path, form: str, rows: list[str]) -> str:
    head = ROWS[form][0]
    path.write_text("\n".join([*([head] if head else []), *rows, ""]))
    return str(path)


def columns(path) -> dict[str, list[float]]:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


@pytest.mark.parametrize("form", ["raca-4g", "raca-5g"])
def test_snr_is_the_mean_over_an_edge_round(form, tmp_path, capsys):
    make = ROWS[form][1]
    # Edge rounds of 3 s: means of (1, 2, 3), of (6, 8) with one missing, then none: 7 again, then
    # (-4): the last second has no whole edge round.
    snr = ["1", "2", "3", "6", "-", "8", "-", "-", "-", "-", "-4", "-", "50"]
    one = save(tmp_path / "one.csv", form, [make(i, snr=word) for i, word in enumerate(snr)])
    # Seconds 0, 0, 1 and 5: a repeated second counts twice, and of seconds left out nothing.
    rows = [make(0, snr="0"), make(0, snr="6"), make(1, snr="3"), make(5, snr="9"), make(20, snr=8)]
    two = save(tmp_path / "two.csv", form, rows)
    out = tmp_path / "trace.csv"
    words = ["trace", "convert", one, two, "--from", form, "--out", str(out), "--edge-round-s", "3"]
    assert main(words) == 0
    said, notes = capsys.readouterr()
    assert said.startswith(f"2 devices, 2 global rounds in {out}\n\n[channel]\nkind = ")
    assert "one.csv: 1 of 4 rounds of 3 s have no value" in notes
    assert columns(out) == {
        "global_round": [0, 0, 0, 0, 1, 1, 1, 1],
        "edge_round": [0, 0, 1, 1, 0, 0, 1, 1],
        "device": [0, 1] * 4,
        "snr_db": [2, 3, 7, 9, 7, 9, -4, 9],
    }


def test_a_log_that_begins_without_values_has_the_first_that_follows(tmp_path):
    rows = [row_5g(i, snr=word) for i, word in enumerate(["-", "", "4", "5"])]
    log = save(tmp_path / "log.csv", "raca-5g", rows)
    made = fedrt.trace_convert(
        log, log_format="raca-5g", out=tmp_path / "t.csv", edge_round_s=1, edge_rounds=1
    )
    assert columns(made)["snr_db"] == [4, 4, 4, 5]
    assert made.global_rounds == 4
    assert len(made.notes) == 1


def test_rates_of_ghent_are_bytes_over_their_milliseconds(tmp_path):
    # 1 Mbyte in 1 s and 0.5 Mbyte in 3 s are 12 Mbit in 4 s; then nothing for 4 s.
    rows = ["5 1000 51.0 3.7 1000000 1000", "5 4000 51.0 3.7 500000 3000"]
    rows += [f"5 {ms} 51.0 3.7 0 0999" for ms in (5000, 6000, 7000, 8000)]
    log = save(tmp_path / "report_foot_0001.log", "ghent", rows)
    made = fedrt.trace_convert(
        [log],
        log_format="ghent",
        out=tmp_path / "t.csv",
        to="backhaul",
        edge_round_s=2,
        links=[(3, 1)],
    )
    # A global round is two edge rounds of 2 s; a link has no rate of zero.
    assert columns(made) == {
        "global_round": [0, 1],
        "edge": [3, 3],
        "edge2": [1, 1],
        "bps": [3e6, 1e3],
    }
    assert "1 of 2 rates are raised to 1000 bit/s" in made.notes[0]


@pytest.mark.parametrize("form", ROWS)
def test_rates_as_a_bandwidth(form, tmp_path):
    make = ROWS[form][1]
    rates = {"kbps": "3000"} if form != "ghent" else {"size": "375000"}
    logs = [save(tmp_path / f"{n}.log", form, [make(i) for i in range(8)]) for n in range(2)]
    logs += [save(tmp_path / "c.log", form, [make(i, **rates) for i in range(4)])]
    made = fedrt.trace_convert(
        logs,
        log_format=form,
        out=tmp_path / "t.csv",
        to="bandwidth",
        edge_round_s=2,
        bits_per_hz=2,
        global_rounds=4,
    )
    # 1 Mbit/s and 3 Mbit/s at 2 bit/s per Hz; the shorter log starts again.
    assert columns(made)["bandwidth_hz"] == [5e5, 5e5, 1.5e6] * 8
    scenario = tiny(f'bandwidth={{kind="trace",file="{made.path}"}}')
    assert SimulatedWorld(scenario, 0).observe(3, 1).edge_bandwidth_hz.tolist() == [5e5, 5e5, 1.5e6]


def test_a_fleet_takes_the_devices_of_a_trace_in_turn(tmp_path):
    logs = [
        save(tmp_path / f"{n}.csv", "raca-4g", [row_4g(i, snr=str(n)) for i in range(40)])
        for n in range(3)
    ]
    made = fedrt.trace_convert(logs, log_format="raca-4g", out=tmp_path / "t.csv", edge_round_s=5)
    assert made.toml.startswith("[channel]")
    channel = f'channel={{kind="trace",file="{made.path}",reuse=true}}'
    seen = SimulatedWorld(tiny(channel), 0).observe(1, 1)
    assert 10 * np.log10(seen.snr) == pytest.approx([0, 1, 2, 0, 1, 2, 0])
    with pytest.raises(InputError, match="has no value for global_round 0, edge_round 0, device 3"):
        SimulatedWorld(tiny(channel.replace(",reuse=true", "")), 0)


BAD = [
    ("raca-4g", [row_4g(0), "1,2"], "log.csv: row 3: has 2 values: must have 20"),
    ("raca-4g", [row_4g(0), row_4g(1, snr="x")], 'row 3: SNR = "x": must be a finite number'),
    ("raca-4g", [row_4g(0, snr="1e9")], "row 2: SNR = "),
    ("raca-5g", [row_5g(0, kbps="-5")], 'row 2: DL_bitrate = "-5": must be a finite number >= 0'),
    ("raca-5g", [row_5g(0, kbps="nan")], 'row 2: DL_bitrate = "nan"'),
    ("raca-5g", [row_5g(0).replace(".", "-")], "row 2: Timestamp = "),
    ("raca-5g", [row_5g(5), row_5g(0)], "row 3: Timestamp = "),
    ("raca-5g", [row_5g(0, snr="-")], "log.csv: has no SNR in any row"),
    ("raca-5g", [], "log.csv: has no rows"),
    ("raca-5g", [row_5g(0)], "log.csv: has 1 whole edge rounds, a global round 2"),
    ("ghent", ["1 2 3"], "row 1: has 3 values: must have 6"),
    ("ghent", ["1 2 3 4 x 6"], 'row 1: bytes = "x": must be a finite number >= 0'),
    ("ghent", ["1 2 3 4 5 -6"], 'row 1: milliseconds = "-6"'),
    ("ghent", ["9 9000 1 1 1 1000", "1 1000 1 1 1 1000"], "row 2: milliseconds since the start"),
    ("ghent", ["", "  "], "log.csv: has no rows"),
]


@pytest.mark.parametrize(("form", "rows", "words"), BAD, ids=[words for *_, words in BAD])
def test_a_bad_log_is_one_line_and_nothing_is_written(form, rows, words, tmp_path, capsys):
    log, out = save(tmp_path / "log.csv", form, rows), tmp_path / "t.csv"
    more = ["--to", "bandwidth", "--bits-per-hz", "1"] if form == "ghent" else []
    assert main(["trace", "convert", log, "--from", form, "--out", str(out), *more]) == 2
    said, err = capsys.readouterr()
    assert (said, err.count("\n")) == ("", 1)
    assert words in err
    assert len(err) < 300
    assert os.listdir(tmp_path) == ["log.csv"]


def refused(*logs, form="raca-5g"):
    with pytest.raises(InputError) as caught:
        fedrt.trace_convert(list(logs), log_format=form, out=Path(logs[0]).parent / "t.csv")
    return caught.value.lines


def test_bad_rows_of_a_kind_are_one_line(tmp_path):
    rows = [row_5g(i % 60, snr=f"x{i}") for i in range(500)] + ["1,2", row_5g(59, kbps="-5")]
    log = save(tmp_path / "log.csv", "raca-5g", rows)
    snr, short, rate = refused(log)
    assert snr.startswith(f'{log}: row 2: SNR = "x0": must be a finite number')
    assert snr.endswith("; 500 rows are like it: 2, 3, 4, 5, 6, ...")
    assert short == f"{log}: row 502: has 2 values: must have {rows[0].count(',') + 1}"
    assert rate.startswith(f'{log}: row 503: DL_bitrate = "-5": must be')


def test_faults_of_many_logs_are_one_line_of_each_kind(tmp_path):
    names = [tmp_path / f"{i}.csv" for i in range(40)]
    logs = [save(name, "raca-5g", [row_5g(0, snr="x"), row_5g(1, snr="y")]) for name in names]
    (line,) = refused(*logs)
    assert line.startswith(f'{logs[0]}: row 2: SNR = "x": must be')
    places = f"{logs[0]} 2, 3, {logs[1]} 2, 3, {logs[2]} 2, ..."
    assert line.endswith(f"; 80 rows of 40 logs are like it: {places}")
    empty = [save(tmp_path / f"{i}.log", "ghent", []) for i in range(3)]
    assert refused(*empty, form="ghent") == [
        f"{empty[0]}: has no rows; 3 logs are like it: {', '.join(empty)}"
    ]
    (lost,) = refused(*(str(tmp_path / f"no{i}") for i in range(30)))
    assert "; 30 logs are like it: " in lost
    rates = [save(tmp_path / f"{i}.g", "ghent", [row_ghent(i) for i in range(40)]) for i in (0, 1)]
    assert len(refused(*rates, form="ghent")) == 1


def test_a_log_of_the_other_format_says_so(tmp_path):
    four = save(tmp_path / "4.csv", "raca-4g", [row_4g(i) for i in range(40)])
    five = save(tmp_path / "5.csv", "raca-5g", [row_5g(i) for i in range(40)])
    out = tmp_path / "t.csv"
    for log, form, words in (
        (four, "raca-5g", "has no column PINGAVG"),
        (five, "raca-4g", "has a column PINGAVG, as the logs of raca-5g have"),
        (five, "ghent", "row 1: has 1 values: must have 6"),
    ):
        with pytest.raises(InputError, match=words):
            fedrt.trace_convert(log, log_format=form, out=out)
    ghent = save(tmp_path / "g.log", "ghent", [row_ghent(i) for i in range(40)])
    with pytest.raises(InputError) as caught:
        fedrt.trace_convert([ghent], log_format="ghent", out=out)
    assert caught.value.lines == [
        f"{ghent}: has rates alone, no SNR: `to` must be bandwidth or backhaul"
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--from", "raca"], '--from = "raca": must be one of raca-4g, raca-5g, ghent'),
        (["--to", "links"], '--to = "links": must be one of channel, bandwidth, backhaul'),
        (["--edge-round-s", "0"], "--edge-round-s = 0.0: must be a finite number > 0"),
        (["--edge-round-s", "nan"], "--edge-round-s = NaN: must be a finite number > 0"),
        (["--edge-rounds", "0"], "--edge-rounds = 0: must be a whole number from 1"),
        (["--global-rounds", "0"], "--global-rounds = 0: must be a whole number from 1"),
        (["--to", "backhaul"], "--links: missing; a backhaul needs the two edge servers"),
        (["--to", "backhaul", "--links", "0-0"], '--links = "0-0": must be pairs of two different'),
        (["--to", "backhaul", "--links", "0-1-2"], '--links = "0-1-2": must be pairs'),
        (["--to", "backhaul", "--links", "a-b"], '--links = "a-b": must be pairs'),
        (["--to", "backhaul", "--links", "0-1,1-2"], "--links: has 2 links: must have one for"),
        (["--links", "0-1"], '--links: only goes with --to = "backhaul"'),
        (["--to", "bandwidth"], "--bits-per-hz: missing; a bandwidth is a log's rate over it"),
        (["--bits-per-hz", "1"], '--bits-per-hz: only goes with --to = "bandwidth"'),
        (["--out", "trace.txt"], '--out = "trace.txt": must be a file whose name ends in .csv'),
        (["--out", "no/t.csv"], '--out "no/t.csv": no is not a folder'),
        (["--edge-round-s", "1e-6"], "lasts 40000000 rounds of 1e-06 s: must be at most 1000000"),
        (["--global-rounds", "1000000", "--edge-rounds", "9"], "would have 9000000 rows: must be"),
    ],
)
def test_a_wrong_option_is_one_line(options, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(Path("log.csv"), "raca-4g", [row_4g(i) for i in range(40)])
    words = ["trace", "convert", "log.csv", "--from", "raca-4g", "--out", "t.csv", *options]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert line in err
    assert os.listdir() == ["log.csv"]


def test_a_file_that_is_there_stays_unless_it_may_be_replaced(tmp_path, capsys):
    log = save(tmp_path / "log.csv", "raca-4g", [row_4g(i) for i in range(40)])
    out = tmp_path / "t.csv"
    words = ["trace", "convert", log, "--from", "raca-4g", "--out", str(out)]
    assert main(words) == 0
    first = out.read_bytes()
    capsys.readouterr()
    assert main([*words, "--edge-round-s", "5"]) == 2
    assert "exists already; give another --out or remove it" in capsys.readouterr().err
    assert out.read_bytes() == first
    assert main([*words, "--edge-round-s", "5", "--overwrite"]) == 0
    assert out.read_bytes() != first
    out.unlink()
    out.symlink_to(tmp_path / "elsewhere.csv")
    assert main([*words, "--overwrite"]) == 2
    assert not (tmp_path / "elsewhere.csv").exists()


def test_what_cannot_be_read_is_one_line_for_each(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "nul.csv").write_text(f"{HEAD_4G}\n\0\n")
    names = [str(tmp_path / name) for name in ("none.csv", "pipe.csv", "bytes.csv", "nul.csv", "")]
    with pytest.raises(InputError) as caught:
        fedrt.trace_convert(names, log_format="raca-4g", out=tmp_path / "t.csv")
    assert [line.startswith(name) for line, name in zip(caught.value.lines, names, strict=True)]
    assert len(caught.value.lines) == 5


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(ROWS)), st.integers(0, 900), st.binary(max_size=4), st.integers(0, 9))
def test_fuzz_torn_logs(tmp_path, form, at, junk, lost):
    make = ROWS[form][1]
    whole = Path(save(tmp_path / "log.csv", form, [make(i) for i in range(30)])).read_bytes()
    torn = tmp_path / "torn.csv"
    torn.write_bytes(whole[:at] + junk + whole[at + lost :])
    out = tmp_path / "t.csv"
    out.unlink(missing_ok=True)
    lines = []
    try:
        fedrt.trace_convert(
            torn,
            log_format=form,
            out=out,
            to="bandwidth",
            bits_per_hz=1.0,
            edge_round_s=2,
            global_rounds=2,
        )
    except InputError as error:
        lines = error.lines
    assert out.exists() == (not lines)
    assert all("\n" not in line and len(line) < 400 for line in lines)
    if not lines:
        assert np.isfinite(columns(out)["bandwidth_hz"]).all()
