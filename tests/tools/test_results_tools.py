"""The tools around the committed results complain in a line, without a traceback."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import figures
import pytest
import results_tables
import verify_cell
from support.paths import ROOT

from fedrt.experiments.kept import read_kept, write_kept

CELL = "fmnist-iid/fedrt-0"


def one_line(capsys) -> str:
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return str(printed.err)


@pytest.fixture
def verify(monkeypatch):
    def run(name: str) -> int:
        monkeypatch.setattr(sys, "argv", ["verify_cell.py", name])
        return verify_cell.main()

    return run


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"../cells/{CELL}", "must be COLUMN/POLICY-SEED"),
        ("mnist/fedrt-0", "COLUMN one of cifar10-iid"),
        ("fmnist-iid", "must be COLUMN/POLICY-SEED"),
        ("fmnist-iid/fedrt-9", "No such file"),
        ("fmnist-iid/" + "x" * 300, "File name too long"),
    ],
)
def test_a_wrong_cell_is_one_line(verify, name, words, capsys):
    assert verify(name) == 2
    assert words in one_line(capsys)


def test_a_cell_of_other_settings_is_not_trained(verify, tmp_path, monkeypatch, capsys):
    kept = read_kept(verify_cell.RESULTS / "cells" / f"{CELL}.npz")
    text = kept.about["scenario"].replace("kappa = ", "kappa = 0.0 # ")
    assert text != kept.about["scenario"]
    path = tmp_path / "cells" / f"{CELL}.npz"
    path.parent.mkdir(parents=True)
    write_kept(path, replace(kept, about=kept.about | {"scenario": text}))
    monkeypatch.setattr(verify_cell, "RESULTS", tmp_path)
    monkeypatch.setattr(verify_cell, "carry_out", None)
    assert verify(CELL) == 2
    assert "other settings" in one_line(capsys)


def test_ctrl_c_is_one_line(verify, monkeypatch, capsys):
    monkeypatch.setattr(
        verify_cell, "find_cell", lambda name: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert verify(CELL) == 130
    assert one_line(capsys) == "interrupted\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("", "lacks cifar10-iid fedrt, "),
        (
            "".join(results_tables.TABLE.read_text().splitlines(True)[:-1]),
            "lacks femnist fedrt-joint;",
        ),
        (results_tables.TABLE.read_text().replace("energy_j,", "joules,", 1), "lacks some of"),
    ],
)
def test_a_table_that_lacks_rows_changes_no_page(text, words, tmp_path, monkeypatch, capsys):
    table = tmp_path / "table.csv"
    if text is not None:
        table.write_text(text)
    monkeypatch.setattr(results_tables, "TABLE", table)
    monkeypatch.setattr(figures, "write_text", None)
    assert figures.main() == 2
    assert words in one_line(capsys)


@pytest.mark.parametrize("words", [[], ["nowhere"], ["a", "b"]])
def test_first_rounds_says_how_it_is_used(words):
    command = [sys.executable, str(ROOT / "tools" / "first_rounds.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
