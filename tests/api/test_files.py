"""Data sets and the paper's table from Python, as `fedrt data` and `fedrt reproduce` have them."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedrt
from fedrt.data.catalogue import channel_stats, load_dataset
from fedrt.data.digest import data_digest
from fedrt.learning.material import measure

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


def test_samples_are_split_into_a_file_for_each_party(tmp_path):
    settings = {"fleet.num_devices": 8, "learning.partition": {"kind": "bootstrap"}}
    settings["learning.partition"]["samples_per_device"] = 30
    out = tmp_path / "new" / "files"
    done = fedrt.data_split("quickstart", seed=3, settings=settings, out=out)
    shown = fedrt.data_show("quickstart", seed=3, settings=settings, save=False)
    names = {"server.npz", *(f"device-{n}.npz" for n in range(8))}
    assert {file.name for file in out.iterdir()} == names
    assert (done.path, done.samples, done.test_samples) == (out, (30,) * 8, 359)
    dataset = load_dataset("digits")
    for number, part in enumerate(shown.parts):
        file = out / f"device-{number}.npz"
        assert file.stat().st_mode & 0o077 == 0
        with np.load(file, allow_pickle=False) as held:
            np.testing.assert_array_equal(held["x"], dataset.train_images[part])
            np.testing.assert_array_equal(held["y"], dataset.train_labels[part])
            assert (int(held["device"]), int(held["seed"])) == (number, 3)
            assert str(held["data_digest"]) == done.data_digest == data_digest(dataset)
    with np.load(out / "server.npz", allow_pickle=False) as held:
        np.testing.assert_array_equal(held["x"], dataset.test_images)
    # With the printed lines inputs are normalised as by default, to the bit.
    given = tomllib.loads(done.normalise)["learning"]["normalise"]
    wanted = channel_stats(dataset.train_images)
    assert [given["mean"], given["deviation"]] == [float(value[0]) for value in wanted]
    more = settings | {"learning.normalise": given}
    assert fedrt.data_split("quickstart", out=tmp_path / "b", settings=more).normalise is None
    with pytest.raises(fedrt.InputError, match="exists already"):
        fedrt.data_split("quickstart", out=out)


def test_a_split_has_the_numbers_of_what_is_measured(tmp_path):
    assert fedrt.data_split("quickstart", out=tmp_path / "a").measured is None
    measured = ["learning.model_bits=measured", "fleet.cycles_per_sample=measured"]
    done = fedrt.data_split("quickstart", out=tmp_path / "b", settings=measured)
    given = tomllib.loads(done.measured)
    wanted = measure(fedrt.load_scenario("quickstart", measured))
    found = fedrt.load_scenario("quickstart", measured).with_(**given)
    assert not found.needs_measuring
    assert found == wanted


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_split_that_fails_leaves_nothing_behind(error, tmp_path, monkeypatch):
    saved, savez = [], np.savez

    def fails(file, **arrays):
        saved.append(file.name)
        if len(saved) == 4:
            raise error
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises((fedrt.FedrtError, KeyboardInterrupt)):
        fedrt.data_split("quickstart", out=tmp_path / "files")
    assert len(saved) == 4
    assert list(tmp_path.iterdir()) == []
    held = {"learning.device_evaluation": {"held_out": 0.2}}
    with pytest.raises(fedrt.InputError, match="not there for real devices"):
        fedrt.data_split("quickstart", settings=held, out=tmp_path / "new" / "files")
    assert list(tmp_path.iterdir()) == []


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
