"""Data sets and the paper's table from Python, as `fedrt data` and `fedrt reproduce` have them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fedrt

CELLS = Path(__file__).parents[2] / "results" / "cells"


def test_data_sets_are_listed_with_where_they_are(tmp_path):
    found = fedrt.data_list(tmp_path).set_index("name")
    assert found.state["digits"] == "ready"
    assert set(found.state.drop("digits")) == {"missing"}
    assert str(tmp_path) in found.about["mnist"]


def test_who_holds_what_is_a_table_and_a_picture(tmp_path):
    out = tmp_path / "parts.png"
    shown = fedrt.data_show("quickstart", seed=3, settings={"fleet.num_devices": 8}, out=out)
    assert shown.path == out
    assert out.stat().st_size > 1000
    table = shown.devices
    assert len(table) == 8
    classes = table[[name for name in table if name.startswith("class_")]]
    assert (classes.sum(axis=1) == table.samples).all()
    assert fedrt.data_show("quickstart", seed=3, save=False).path is None
    with pytest.raises(fedrt.InputError, match="exists already"):
        fedrt.data_show("quickstart", out=out)


def test_data_that_are_not_known_are_refused(tmp_path):
    with pytest.raises(fedrt.InputError, match="must be one of cifar10"):
        fedrt.data_import("imagenet", tmp_path)
    with pytest.raises(fedrt.InputError, match="must be a folder"):
        fedrt.data_import("mnist", tmp_path / "nowhere")


def test_a_table_is_made_again_from_trained_cells(tmp_path):
    (tmp_path / "cells" / "fmnist-iid").mkdir(parents=True)
    shutil.copy(CELLS / "fmnist-iid" / "fedrt-0.npz", tmp_path / "cells" / "fmnist-iid")
    done = fedrt.reproduce("table", seeds=0, only=["fmnist-iid"], out=tmp_path, train=False)
    assert (done.folder, done.cells) == (tmp_path, 1)
    assert done.asked > 1
    (made,) = done.made
    assert made.name == "table"
    assert all(file.exists() for file in made.files)
    assert made.text is not None
    assert "FedRT" in made.text
    with pytest.raises(fedrt.InputError, match="`what` 'tables'"):
        fedrt.reproduce("tables")
    with pytest.raises(fedrt.InputError, match="none of these cells"):
        fedrt.reproduce("table", seeds=9, only="fmnist-iid", out=tmp_path, train=False)


def test_a_scenario_is_checked_with_its_world(tmp_path):
    assert fedrt.check("quickstart") == fedrt.scenario("quickstart")
    file = tmp_path / "mine.toml"
    file.write_text('extends = "quickstart"\n[channel]\nkind = "trace"\nfile = "no.csv"\n')
    with pytest.raises(fedrt.InputError, match=r"no\.csv: cannot be read"):
        fedrt.check(str(file))
