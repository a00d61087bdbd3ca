"""The page of damaged, foreign or unfinished folders: a page or a line, nothing overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from pyarrow import parquet
from support.page_data import report
from support.trained import trained

from fedrt.report.page.collect import collect

DAMAGE = {
    "nothing": lambda path: path.write_bytes(b""),
    "junk": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a list": lambda path: path.write_text("[[1, 2]]"),
}
FILES = (
    *("run.json", "config.toml", "environment.json", "summary.json"),
    *("rounds.parquet", "edges.parquet", "links.parquet", "devices.parquet", "partition.parquet"),
)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_directory_is_a_page_or_a_line(name, damage, trained_run, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "page.html"
    shutil.copytree(trained_run, run)
    DAMAGE[damage](run / name)
    code = report(run, "--out", out)
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert code in (0, 2)
    if code == 2:
        assert not out.exists()
        assert str(run) in err
    elif err:
        assert name in err
        assert str(run / name) in out.read_text()
    harmless = damage == "gone" and name not in ("run.json", "config.toml")
    if not harmless and not (name == "environment.json" and damage == "a list"):
        assert err or damage in ("gone", "a folder"), (name, damage)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("global_round", [9, 8, 7, 6, 5]),
        ("time_s", ["a"] * 5),
        ("ends_at_s", [None] * 5),
        ("energy_j_mean", [[1.0]] * 5),
    ],
)
def test_a_table_with_foreign_columns_is_a_line(column, values, trained_run, tmp_path, capsys):
    import pyarrow as pa

    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    table = parquet.read_table(run / "rounds.parquet")
    place = table.column_names.index(column)
    parquet.write_table(table.set_column(place, column, pa.array(values)), run / "rounds.parquet")
    assert report(run) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "rounds.parquet" in err


@pytest.mark.parametrize("table", ["edges", "links", "devices", "partition"])
def test_places_that_do_not_exist_are_a_line_beside_the_rest(table, trained_run, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    path = run / f"{table}.parquet"
    rows = parquet.read_table(path)
    name = "edge" if table in ("edges", "links") else "device"
    wrong = rows[name].to_numpy().copy()
    wrong[-1] = 10**9
    parquet.write_table(rows.set_column(rows.column_names.index(name), name, [wrong]), path)
    # Links of the first round name the servers for all; the others must only be the same many.
    assert report(run) == 0
    assert f"{table}.parquet" in capsys.readouterr().err


def test_a_damaged_run_stands_beside_good_ones(compared, tmp_path, capsys):
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    (out / "static-r-3" / "rounds.parquet").write_bytes(b"PAR1")
    assert report(out) == 0
    err = capsys.readouterr().err
    assert err.startswith(f"note: {out / 'static-r-3' / 'rounds.parquet'}: cannot be read")
    assert err.count("\n") == 1
    data = collect([out])
    assert len(data["runs"]) == 9
    assert len(data["problems"]) == 1


def test_damaged_studies_are_a_line(tmp_path, capsys):
    for name in ("sweep", "front", "size"):
        for text in ("", "{}", "[]", '{"scenario": 1, "vary": 2, "points": [3]}', "nan"):
            folder = tmp_path / "study"
            folder.mkdir()
            (folder / f"{name}.json").write_text(text)
            assert report(folder) == 2
            err = capsys.readouterr().err
            assert err.count("\n") == 1
            assert f"{name}.json" in err
            shutil.rmtree(folder)


def test_a_run_before_its_first_round_says_so(tmp_path, capsys):
    from support.trained import start

    run = start(tmp_path / "run", trained())
    assert report(run) == 0
    data = collect([run])
    assert (data["progress"]["done"], data["progress"]["total"]) == (0, 5)
    assert data["runs"][0]["detail"] is None


def test_what_is_no_run_is_one_line(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, words in (
        ("empty", "holds no run"),
        ("foreign", "holds no run"),
        ("file", "is not a folder"),
        ("missing", "is not there"),
        ("x" * 300, "cannot be read"),
        ("nul\0", "is not there"),
    ):
        assert report(tmp_path / name) == 2
        text, err = capsys.readouterr()
        assert text == ""
        assert err.count("\n") == 1
        assert words in err
    assert os.listdir(tmp_path / "foreign") == ["notes.txt"]
    assert os.listdir(tmp_path / "empty") == []


def test_only_a_page_of_ours_is_written_over(compared, tmp_path, capsys):
    mine = tmp_path / "mine.html"
    mine.write_text("<!doctype html><p>mine")
    (tmp_path / "folder").mkdir()
    for out, words in (
        (mine, "is not a page of fedrt"),
        (tmp_path / "folder", "is not a page of fedrt"),
        (tmp_path / "none" / "page.html", "is not a folder"),
        (mine / "page.html", "is not a folder"),
    ):
        assert report(compared, "--out", out) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert words in err
    assert mine.read_text() == "<!doctype html><p>mine"


def test_names_that_are_no_text_do_no_harm(compared, tmp_path):
    """A folder's name may be bytes that are no UTF-8."""
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    shutil.copytree(compared, out)
    assert report(out) == 0
    assert (out / "page.html").stat().st_size > 10**6


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "1" + "0" * 400, '"x"', "null"])
def test_numbers_that_no_page_can_hold_are_a_line(value, studies, tmp_path, capsys):
    for kind, key in (("sweep", "mean"), ("front", "std"), ("size", "deadline_s")):
        folder = shutil.copytree(studies / kind, tmp_path / kind)
        path = folder / f"{kind}.json"
        path.write_text(re.sub(rf'("{key}": )[-+.e0-9]+', rf"\g<1>{value}", path.read_text()))
        capsys.readouterr()
        assert report(folder) == 2
        assert capsys.readouterr().err == f"{path}: is not what fedrt {kind} saves\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, 1e308, "x", None, [1]])
def test_a_summary_with_such_numbers_has_a_page(value, compared, tmp_path, capsys):
    folder = shutil.copytree(compared, tmp_path / "out")
    for path in folder.glob("*/summary.json"):
        summary = json.loads(path.read_text())
        keys = summary.keys() - {"scenario", "policy", "seed"}
        path.write_text(json.dumps(summary | dict.fromkeys(keys, value)))
    assert report(folder) == 0
    assert "Traceback" not in capsys.readouterr().err
    html = (folder / "page.html").read_text()
    assert "NaN," not in html.partition('id="data"')[2].partition("</script>")[0]
