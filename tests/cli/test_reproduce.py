"""`fedrt reproduce` as a user types it, on a column small enough to train here."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from support.kept_cells import TINY
from support.paths import ROOT

from fedrt import cli
from fedrt.api.files import NAMES, reproduction
from fedrt.cli import main
from fedrt.experiments import cells
from fedrt.experiments.cells import in_brief
from fedrt.experiments.paper import METHODS

SMALL = ["--seeds", "0", "--engine", "sequential", "--dtype", "float32"]


@pytest.fixture
def tiny_table(monkeypatch):
    monkeypatch.setitem(cells.WHAT, "table", ((TINY,), METHODS))
    # The paper's columns ask for no code; this one has a model of the tests.
    typed = cli.typed_paths
    monkeypatch.setattr(cli, "typed_paths", lambda args: {*typed(args), "support.trained:Softmax"})


def test_the_table_in_all_its_forms(tiny_table, tmp_path, capsys):
    out = tmp_path / "results"
    more = ["--policy", "fedrt-plus", "--policy", "support.trained:Moody"]
    assert main(["reproduce", "table", *SMALL, "--out", str(out), *more]) == 0
    printed = capsys.readouterr()
    assert "Tiny: 5 rounds, 1 seed" in printed.out
    assert "7 of 7: tiny/support.trained.Moody-0 trained" in printed.err
    with (out / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == [*METHODS, "fedrt-plus", "support.trained:Moody"]
    assert all(float(row["time_h"]) > 0 for row in rows)
    for name in ("table.md", "table.tex"):
        text = (out / name).read_text()
        assert all(policy in text for policy in (*METHODS, "support.trained:Moody"))
    # What is there is shown without training, the same.
    before = (out / "table.csv").read_bytes()
    again = ["reproduce", "table", "--no-training", *SMALL[:2], "--dtype", "float32"]
    assert main([*again, "--out", str(out), *more]) == 0
    assert (out / "table.csv").read_bytes() == before
    assert main([*again, "--out", str(out), "--seeds", "0,1"]) == 0
    lacking = "5 of 10 cells are not there yet: tiny/fedrt-1, tiny/static-r-1,"
    assert lacking in capsys.readouterr().err
    assert main([*again, "--out", str(out), "--policy", "support.trained:Absent"]) == 2
    assert "Absent" in capsys.readouterr().err


def test_results_made_elsewhere_are_taken_over(tiny_table, tmp_path, capsys):
    there, here = str(tmp_path / "there"), str(tmp_path / "here")
    assert main(["reproduce", "table", *SMALL, "--out", there]) == 0
    merge = ["--merge", there, "--no-training"]
    assert main(["reproduce", "table", *SMALL, "--out", here, *merge]) == 0
    assert f"took 5 cells from {there}" in capsys.readouterr().err
    same = [(Path(folder) / "table.csv").read_bytes() for folder in (there, here)]
    assert same[0] == same[1]


def test_cells_that_are_named_are_trained_alone(tiny_table, tmp_path, capsys):
    words = ["reproduce", "table", *SMALL[2:], "--seeds", "0,1", "--out", str(tmp_path)]
    assert main([*words, "--cells", "tiny/static-t-1,*/fedrt-?"]) == 0
    printed = capsys.readouterr()
    assert "3 of 3 cells are in" in printed.out
    made = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    kept = ["cells/tiny/fedrt-0.npz", "cells/tiny/fedrt-1.npz", "cells/tiny/static-t-1.npz"]
    assert sorted(made) == kept, "no table, no other cell"


def test_what_would_be_empty_is_left_as_it_was(tmp_path, monkeypatch, capsys):
    """Of all there is to make, only the figure of few labels has a cell."""
    column = next(c for c in cells.NON_IID if c.name == "fmnist-labels-2")
    cell = "fmnist-labels-2/fedrt-0.npz"
    target = tmp_path / "cells" / cell
    target.parent.mkdir(parents=True)
    target.write_bytes((ROOT / "results" / "cells" / cell).read_bytes())
    before = ("table.md", "table.tex", "table.csv", "choices.md", "beyond.md")
    for name in before:
        (tmp_path / name).write_text("as it was")
    words = ["--no-training", "--only", column.name, "--out", str(tmp_path)]
    assert main(["reproduce", "all", *words]) == 0
    printed = capsys.readouterr()
    assert (tmp_path / "fig-noniid.svg").is_file()
    assert {(tmp_path / name).read_text() for name in before} == {"as it was"}
    left = [line.partition(":")[0] for line in printed.err.splitlines()[1:]]
    assert left == [
        "table",
        "fig-convergence",
        "fig-energy",
        "fig-basegraph",
        "choices",
        "beyond",
        "joint",
    ]
    assert "fmnist-labels-2/static-t-2" in printed.err.splitlines()[0]
    # FedRT's cell alone has nothing to be held against.
    assert main(["reproduce", "beyond", *words]) == 2
    assert "too few cells" in capsys.readouterr().err


def test_more_policies_are_trained_only_where_they_are_shown():
    shown = reproduction._chosen(NAMES, [0], [], ["my:Own"], in_brief)
    with_it = [name for name, each in shown.items() if "my:Own" in each.policies]
    assert with_it == ["table", "fig-convergence", "fig-energy", "beyond", "joint"]


def test_choices_of_by_class_columns_alone_have_no_empty_tables(tmp_path):
    cell = "fmnist-dirichlet-by-class/fedrt-0.npz"
    target = tmp_path / "cells" / cell
    target.parent.mkdir(parents=True)
    target.write_bytes((ROOT / "results" / "cells" / cell).read_bytes())
    words = ["--no-training", "--only", target.parent.name, "--out", str(tmp_path)]
    assert main(["reproduce", "choices", *words]) == 0
    text = (tmp_path / "choices.md").read_text()
    assert text.startswith("Best accuracy of FedRT trained otherwise")
    assert "|" not in text


@pytest.mark.parametrize(("words", "every"), [(["--quick"], 1), ([], 10)])
def test_a_stop_costs_few_rounds(words, every, tmp_path, monkeypatch, capsys):
    def stopped(cells, store, options, **rest):
        assert options.checkpoint_every == every
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "carry_out", stopped)
    assert main(["reproduce", "table", *words, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.startswith("stopped; the same command goes on from here\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["fig-9"], "invalid choice: 'fig-9'"),
        ([], "required"),
        (["table", "--only", "mnist"], "--only 'mnist': must be one of cifar10-iid"),
        (["fig-noniid", "--only", "femnist"], "--only 'femnist': must be one of cifar10-labels-2"),
        (["table", "--seeds", "-1"], "--seeds"),
        (["table", "--dtype", "int8"], "--dtype 'int8': must be one of bfloat16"),
        (["table", "--quick", "--dtype", "float32"], "--dtype: not with --quick"),
        (["table", "--policy", "best"], 'policy = "best"'),
        (["table", "--merge", "nowhere"], "--merge nowhere: has no folder cells/"),
        (["table", "--no-training"], "results: none of these cells is there"),
        (["table", "--device", "abacus"], "abacus"),
        (["table", "--only", ""], "--only"),
        (
            ["table", "--cells", "femnist/best-0"],
            "--cells 'femnist/best-0': fits none of the cells",
        ),
        (["table", "--cells", ""], "--cells"),
        (["table", "--policy", "x" * 300], "policy = "),
        (["table", "--out", "x" * 300, "--no-training"], "none of these cells is there"),
        (["table", "--out", "x" * 300, "--only", "femnist"], "cannot be made: File name too long"),
        (["table", "--merge", "x" * 300], "cannot be read: File name too long"),
        (["choices", "--policy", "fedrt-plus"], "--policy: choices shows none; table, fig-conv"),
    ],
)
def test_wrong_input_is_one_line(words, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDRT_DATA", raising=False)
    (tmp_path / "results").mkdir()  # as in a clone
    assert main(["reproduce", *words]) == 2
    printed = capsys.readouterr()
    assert complaint in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_missing_data_is_said_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDRT_DATA", str(tmp_path))
    assert main(["reproduce", "table", "--quick", "--only", "femnist"]) == 2
    assert "femnist" in capsys.readouterr().err
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
