"""Files from strangers: devices, pipes, bombs and deep nesting end in a line that says the cap."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedrt.cli import main
from fedrt.data.formats import read_idx, read_npz_file
from fedrt.data.originals import read_original
from fedrt.errors import FedrtError, InputError
from fedrt.learning.stacked.tuning import Tuning
from fedrt.learning.stacked.tuning_cache import read_tuning, remembered
from fedrt.scenario import load_scenario, scenario_text
from fedrt.scenario.tables.toml_text import parse_toml
from fedrt.system import inputs
from fedrt.validation import Listed, Real, keys_of, shown
from fedrt.world.traces import read_trace


def one_line(capsys, *argv):
    """The only line of a command that ends with exit code 2."""
    assert main([str(word) for word in argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    return err[:-1]


@pytest.mark.parametrize("command", [("scenario", "check"), ("estimate",), ("plan",)])
def test_a_device_is_no_file(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "/dev/zero: must be a regular file" in one_line(capsys, *command, "/dev/zero")


@pytest.mark.parametrize("command", [("scenario", "check"), ("plan",)])
def test_a_pipe_is_no_file(command, capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert "must be a regular file" in one_line(capsys, *command, tmp_path / "pipe.toml")


@pytest.mark.parametrize(
    ("command", "most"), [(("scenario", "check"), 16 * 2**20), (("plan",), 64 * 2**20)]
)
def test_the_size_of_a_file_is_capped(command, most, capsys, tmp_path):
    with (tmp_path / "big").open("wb") as file:
        file.truncate(most + 1)
    line = one_line(capsys, *command, tmp_path / "big")
    assert f"has {most + 1} bytes: must have at most {most}" in line


def test_the_size_of_stdin_is_capped(capsys, monkeypatch):
    monkeypatch.setattr("fedrt.system.inputs.MOST_TEXT", 10)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[" * 1000)))
    assert one_line(capsys, "plan", "-") == "stdin: has 11 bytes: must have at most 10"


def test_deeply_nested_files_are_one_line(capsys, tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "deep.json").write_text(deep)
    assert "is not JSON" in one_line(capsys, "plan", tmp_path / "deep.json")
    (tmp_path / "deep.toml").write_text(f"name = {deep}")
    assert "cannot be read" in one_line(capsys, "scenario", "check", tmp_path / "deep.toml")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "[1e999, NaN]", ""])
def test_a_damaged_tuning_file_is_measured_anew(text, tmp_path):
    file = tmp_path / "tuning.json"
    file.write_text(text)
    found = Tuning(4, 2, compiled=False, form="rows")
    assert remembered(file, "key", lambda: found, read_tuning) == found
    assert json.loads(file.read_text())["key"]["chunk"] == 4


def test_keys_given_twice_are_found_without_counting_each():
    pairs = ", ".join(f'"k{i}": 1' for i in range(200_000))
    with pytest.raises(ValueError, match='the field "k199999" is given twice'):
        inputs.parse_json(f'{{{pairs}, "k199999": 2}}')


class Counted(list):
    """A list that counts how many of its items were asked for."""

    asked = 0

    def __iter__(self):
        for item in super().__iter__():
            self.asked += 1
            yield item


def test_no_more_of_a_value_is_formatted_than_is_shown():
    long = Counted(range(1_000_000))
    assert shown(long) == shown(list(range(100)))
    assert long.asked < 100
    assert len(shown("x" * 10**7)) == 60
    assert shown({"a": [1, "b", None, True]}) == '{"a": [1, "b", null, true]}'


def test_a_line_for_the_first_of_many_bad_items_and_unknown_fields():
    problems: list[str] = []
    assert Listed(Real()).read(["x"] * 1_000_000, "list", problems) is None
    assert len(problems) == 201
    assert problems[-1] == "list: items after list[199] were not looked at"
    problems = []
    keys_of({f"k{i}": 1 for i in range(1_000_000)}, "table", problems, [])
    assert len(problems) == 201
    assert problems[-1] == "table: and 999800 more unknown fields"


def test_a_scenario_of_a_million_unknown_keys_says_its_cap(capsys, tmp_path):
    (tmp_path / "keys.toml").write_text("\n".join(f"k{i} = 1" for i in range(1_000_000)))
    line = one_line(capsys, "scenario", "check", tmp_path / "keys.toml")
    assert "has 1000000 lines: must have at most 200000" in line


@pytest.mark.parametrize("text", ["{}b = 1", "[{}b]", "x = {{ {}b = 1 }}", "x = [{{{}b=1}}]"])
def test_a_key_of_many_parts_is_refused_before_it_is_read(text):
    for parts in ("a." * 30_000, '"a" . ' * 30_000):
        with pytest.raises(ValueError, match="a key of more than 64 parts"):
            parse_toml(text.format(parts))
    assert parse_toml(text.format("a." * 10))


def test_texts_with_many_dots_are_no_keys():
    text = "# " + "." * 100 + '\nx = "' + "a, b. " * 100 + '"\ny = [' + "1.5, " * 100 + "]"
    assert parse_toml(text)["y"] == [1.5] * 100


@pytest.mark.parametrize("name", ["[/x]", "[bold]x", "a[/]b", "\\[/x]", "$x$"])
@pytest.mark.parametrize(
    "command",
    [
        ("estimate",),
        ("sweep", "--vary", "bandwidth.scale=1,2"),
        ("front", "--budgets", "1,2"),
        ("size", "--vary", "bandwidth.scale=1..2", "--deadline", "1000h"),
        ("bound",),
    ],
)
def test_names_are_text_and_no_markup(command, name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verb, *options = command
    few = ["--set", "rounds.global_rounds=2", "--set", f"name={json.dumps(name)}"]
    few += ["--policy" if verb == "size" else "--policies", "fedrt"]
    assert main([verb, "quickstart", *options, *few]) == 0
    if verb not in ("size",):
        assert name in capsys.readouterr().out


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "a\rb", "\x9b31m", "\x7f", "a\tb"])
def test_names_that_command_a_terminal_are_refused(name, capsys, tmp_path):
    (tmp_path / "s.toml").write_text(
        scenario_text(load_scenario("quickstart")).replace(
            '"quickstart"', json.dumps(name).replace("\x7f", "\\u007f"), 1
        )
    )
    line = one_line(capsys, "scenario", "check", tmp_path / "s.toml")
    assert line.startswith("scenario.name = ")
    assert line.endswith("without control characters")


def test_lines_of_a_description_stay():
    scenario = load_scenario("quickstart", ['description="""a\n\tb"""'])
    assert scenario.description == "a\n\tb"


def test_what_an_error_quotes_cannot_command_a_terminal():
    assert (
        FedrtError("a\x1b[2Jb\nc").report()
        == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c"
    )


def bomb(path, size):
    """An npz file whose one array of zeros unpacks to more than so many bytes."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": (size,)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as part,
    ):
        part.write(head.getvalue())
        for _ in range(size // 2**20 + 1):
            part.write(bytes(2**20))


def test_what_an_npz_unpacks_to_is_capped(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_UNPACKED", 2**22)
    bomb(tmp_path / "bomb.npz", 2**22)
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    with pytest.raises(
        InputError, match=r"unpacks to .* bytes: compressed arrays must have at most"
    ):
        read_npz_file(tmp_path / "bomb.npz", ["x"])
    np.savez(tmp_path / "stored.npz", x=np.zeros(2**23, np.uint8))
    assert len(read_npz_file(tmp_path / "stored.npz", ["x"])["x"]) == 2**23


def test_what_a_gz_unpacks_to_is_capped(tmp_path):
    head = bytes([0, 0, 8, 3]) + np.array([10_000_000, 1000, 1000], ">u4").tobytes()
    (tmp_path / "x.gz").write_bytes(gzip.compress(head + bytes(2**20)))
    with pytest.raises(
        InputError, match=f"unpacked,: has .* must have at most {inputs.MOST_UNPACKED}"
    ):
        read_idx(tmp_path / "x.gz", 3)


def test_what_a_tar_unpacks_to_is_capped(tmp_path, monkeypatch):
    monkeypatch.setattr("fedrt.data.originals.MOST_UNPACKED", 2**20)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        about = tarfile.TarInfo("other")
        about.size = 2**21
        archive.addfile(about, io.BytesIO(bytes(2**21)))
    with pytest.raises(InputError, match=f"unpacked,: has .* must have at most {2**20}"):
        read_original("cifar10", tmp_path)


def test_what_a_parquet_file_unpacks_to_is_capped(tmp_path, monkeypatch):
    names = ("global_round", "edge_round", "snr_db")
    parquet.write_table(pa.table({name: np.zeros(1000) for name in names}), tmp_path / "t.parquet")
    monkeypatch.setattr(inputs, "MOST_CELLS", 2999)
    with pytest.raises(
        InputError, match="has 1000 rows in 3 columns: must have at most 2999 numbers"
    ):
        read_trace(
            str(tmp_path / "t.parquet"), {"global_round": 1, "edge_round": 1}, "snr_db", Real()
        )


def test_a_trace_must_be_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InputError, match="must be a regular file"):
        read_trace(str(tmp_path / "t.csv"), {"global_round": 1}, "snr_db", Real())


def test_gossip_steps_are_capped(capsys):
    line = one_line(capsys, "scenario", "check", "quickstart", "--set", "rounds.gossip_steps=1e6")
    assert line.endswith("= 1000000.0: must be a whole number from 1 to 1000")
