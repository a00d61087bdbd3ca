"""`fedrt data`: one line per data set, imports that load quickly, a table and a picture."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support import data_files as made

from fedrt.cli import main
from fedrt.data.catalogue import load_dataset
from fedrt.report.partition_figure import partition_figure, save_picture


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing of the machine's own data, and pictures land in a folder of the test."""
    monkeypatch.delenv("FEDRT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def fields(dataset):
    return {name: value for name, value in vars(dataset).items() if isinstance(value, np.ndarray)}


def test_list_says_what_is_there_and_what_is_missing(tmp_path, capsys, monkeypatch):
    made.write_idx(tmp_path / "fmnist")
    made.write_cifar(tmp_path / "cifar10", "npz")
    (tmp_path / "cifar10" / "test_batch.npz").unlink()
    monkeypatch.setenv("FEDRT_DATA", str(tmp_path))
    assert main(["data", "list"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["digits", "cifar10", "mnist", "fmnist", "femnist"]
    assert lines["digits"].startswith("ready")
    assert lines["fmnist"] == f"ready: idx in {tmp_path / 'fmnist'}"
    assert lines["cifar10"].startswith("incomplete: ")
    assert lines["cifar10"].endswith("but not test_batch.npz")
    assert lines["femnist"].endswith("or run: fedrt data fetch femnist")
    monkeypatch.delenv("FEDRT_DATA")
    assert main(["data", "list"]) == 0
    assert "give --data-dir DIR or set FEDRT_DATA" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("cifar10", lambda folder: made.write_cifar(folder, "tar-python2")),
        ("mnist", made.write_idx),
        ("fmnist", made.write_idx),
        ("femnist", lambda folder: made.write_leaf(folder, "split")),
        ("femnist", made.write_femnist_npz),
    ],
)
def test_an_import_loads_as_the_originals_did(tmp_path, capsys, name, write):
    source, target = tmp_path / "source", tmp_path / "new" / "data"
    write(source)
    assert main(["data", "import", name, str(source), "--data-dir", str(target)]) == 0
    path = target / name / f"{name}.npz"
    assert capsys.readouterr().out.rstrip().endswith(f"kept in {path}")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    before, after = load_dataset(name, source), load_dataset(name, target)
    assert fields(before).keys() == fields(after).keys()
    for field, value in fields(before).items():
        assert_array_equal(value, fields(after)[field])
        assert value.dtype == fields(after)[field].dtype
    # Once more, from the folder it is kept in: the same file.
    content = path.read_bytes()
    assert main(["data", "import", name, str(target), "--data-dir", str(target)]) == 0
    again = load_dataset(name, target)
    assert_array_equal(again.train_images, after.train_images)
    assert len(path.read_bytes()) == len(content)


def test_a_failed_import_leaves_what_was_there(tmp_path, capsys):
    made.write_idx(tmp_path / "source")
    command = ["data", "import", "mnist", str(tmp_path / "source"), "--data-dir", str(tmp_path)]
    assert main(command) == 0
    content = (tmp_path / "mnist" / "mnist.npz").read_bytes()
    damaged = tmp_path / "source" / "t10k-labels-idx1-ubyte.gz"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert main(command) == 2
    assert str(damaged) in capsys.readouterr().err
    assert (tmp_path / "mnist" / "mnist.npz").read_bytes() == content


@pytest.mark.parametrize(
    "args",
    [
        ["data"],
        ["data", "import", "mnist"],
        ["data", "import", "digits", "."],
        ["data", "import", "mnits", "."],
        ["data", "import", "mnist", "no-such-folder", "--data-dir", "d"],
        ["data", "import", "mnist", "a\0b", "--data-dir", "d"],
        ["data", "import", "mnist", ".", "--data-dir", "d"],
        ["data", "import", "mnist", "."],
        ["data", "import", "mnist", ".", "--data-dir", "a\0b"],
        ["data", "fetch", "mnist"],
        ["data", "fetch", "digits", "--data-dir", "d"],
        ["data", "list", "--data-dir", "no-such-folder"],
        ["data", "show", "paper/femnist"],
        ["data", "show", "--seed", "-1"],
        ["data", "show", "--seed", "1,2"],
        ["data", "show", "--out", "picture.doc"],
        ["data", "show", "--out", "a\0b.png"],
        ["data", "show", "--out", "there.png"],
        ["data", "show", "--out", "no-such-folder/a.png"],
        ["data", "show", "--set", "fleet.num_devices=2000"],
        ["data", "show", "--set", "learning.dataset=none"],
        ["data", "show", "--set", 'learning.partition={kind="writer"}'],
    ],
)
def test_bad_calls_end_with_2_and_one_line(tmp_path, args, capsys):
    (tmp_path / "there.png").write_bytes(b"mine")
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert (tmp_path / "there.png").read_bytes() == b"mine"
    assert not (tmp_path / "runs").exists()


def test_fetch_without_the_library_or_a_network(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert main(["data", "fetch", "femnist", "--data-dir", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install 'fedrt[datasets]'; or put LEAF's train/*.json" in err


def test_show_prints_and_draws(tmp_path, capsys):
    assert main(["data", "show"]) == 0
    out = capsys.readouterr().out
    assert "1,438 of 1,438 training samples given; 359 test samples" in " ".join(out.split())
    picture = tmp_path / "runs" / "data-quickstart-0.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    own = tmp_path / "own.svg"
    settings = ["--set", 'learning.partition={kind="cluster-pathological",labels_per_cluster=2}']
    assert main(["data", "show", "quickstart", "--seed", "7", "--out", str(own), *settings]) == 0
    assert "<svg" in own.read_text()


def test_show_by_writer(tmp_path, capsys):
    made.write_femnist_npz(tmp_path / "femnist", writers=4, each=100)
    call = ["data", "show", "paper/femnist", "--data-dir", str(tmp_path)]
    small = ["--set", "fleet.num_devices=3", "--set", "fleet.num_edges=1"]
    assert main([*call, *small]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "270 of 270 training samples given; 30 test samples" in out
    assert main(call) == 2
    assert "has 4 writers with at least 100 samples" in capsys.readouterr().err


@pytest.mark.parametrize(("devices", "edges", "classes"), [(1, 1, 1), (72, 8, 62), (900, 60, 10)])
def test_the_picture_has_a_column_for_everyone(tmp_path, devices, edges, classes):
    rng = np.random.default_rng(0)
    edge_of_device = rng.permutation(np.arange(devices) % edges)
    counts = rng.integers(0, 50, (devices, classes))
    figure = partition_figure(counts, edge_of_device, "everyone")
    bars, matrix = figure.axes[:2]
    columns = devices if devices <= 300 else edges
    assert len(bars.patches) == columns
    assert matrix.images[0].get_array().shape == (classes, columns)
    heights = [bar.get_height() for bar in bars.patches]
    by_edge = [counts[edge_of_device == e].sum() for e in range(edges)]
    if columns == edges:
        assert heights == by_edge
    else:
        assert heights == list(counts.sum(1)[np.argsort(edge_of_device, kind="stable")])
    save_picture(figure, tmp_path / "everyone.png")
    assert (tmp_path / "everyone.png").stat().st_size > 1000


def test_data_commands_do_without_torch():
    code = (
        "import sys; from fedrt.cli import main; main(['data', 'show']);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "False"


def test_without_matplotlib_the_table_is_there(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["data", "show"]) == 0
    assert "a picture: needs matplotlib, which is not installed" in capsys.readouterr().err
    assert main(["data", "show", "--out", "asked.png"]) == 2


def test_show_does_without_what_is_still_to_be_measured(capsys):
    measured = ["--set", "fleet.cycles_per_sample=measured"]
    assert main(["data", "show", "quickstart", "--out", "plain.svg"]) == 0
    plain = capsys.readouterr().out
    assert main(["data", "show", "quickstart", "--out", "other.svg", *measured]) == 0
    assert capsys.readouterr().out == plain.replace("plain.svg", "other.svg")


def test_an_import_of_nothing_makes_no_folder(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    target = tmp_path / "new"
    args = ["data", "import", "mnist", str(tmp_path / "empty"), "--data-dir", str(target)]
    assert main(args) == 2
    assert not target.exists()


def test_split_says_what_it_wrote_and_loads_no_torch(tmp_path):
    code = (
        f"import sys; from fedrt.cli import main; out = {str(tmp_path / 'files')!r};"
        "args = ['data', 'split', 'quickstart', '--seed', '2', '--out', out];"
        "print(main(args), main(args));"
        "from fedrt.learning.remote import LocalTrainer; from fedrt.scenario import load_scenario;"
        "given = load_scenario('quickstart', ['learning.normalise=false']);"
        "print(LocalTrainer.open(given, 2, 1, out + '/device-1.npz').samples);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == (
        f"{tmp_path / 'files'}: 20 devices with 71 to 72 samples each, device-0.npz and so on;"
    )
    assert lines[1].startswith("server.npz with 359 test samples; data digest ")
    assert lines[3] == "[learning.normalise]"
    assert lines[-3] == "0 2"
    assert int(lines[-2]) in (71, 72)
    assert lines[-1] == "False"
    assert (
        done.stderr.decode()
        == f"{tmp_path / 'files'}: exists already; give another --out or" + (" remove it\n")
    )


@pytest.mark.parametrize(("most", "cut"), [(5, False), (4, True)])
def test_only_as_many_edges_are_shown_as_fit(most, cut, monkeypatch, capsys):
    """Quickstart has five."""
    monkeypatch.setattr("fedrt.cli.data.MOST_ROWS", most)
    assert main(["data", "show"]) == 0
    assert ("the first 4 of 5 edges" in " ".join(capsys.readouterr().out.split())) is cut
