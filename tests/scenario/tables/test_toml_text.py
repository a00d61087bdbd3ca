"""Tables written as TOML: what is read again is the same, and a person can read it too."""

from __future__ import annotations

import datetime
import sys
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario
from fedrt.scenario.tables.toml_text import MOST_PARTS, parse_toml, plain_toml, toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXT
    | st.dates()
    | st.times().map(lambda time: time.replace(tzinfo=None))
    | st.datetimes()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_what_is_read_again_is_the_same(table):
    assert tomllib.loads(plain_toml(table)) == table
    text = toml_text(table)
    assert tomllib.loads(text) == table
    assert not any(line.startswith((" ", "]")) for line in text.split("\n"))


def test_values_come_before_tables_and_lists_stay_on_a_line():
    table = {
        "first": {"inner": {"x": 1}, "links": [[0, 1], [1, 2]], "texts": ["a]", "[", ",", " b,"]},
        "name": "n",
        "mixed": [1.5, {"low": [1, 2]}, []],
        "day": datetime.date(2026, 11, 15),
    }
    assert toml_text(table) == (
        'name = "n"\n'
        "mixed = [1.5, { low = [1, 2] }, []]\n"
        "day = 2026-11-15\n"
        "\n[first]\n"
        "links = [[0, 1], [1, 2]]\n"
        'texts = ["a]", "[", ",", " b,"]\n'
        "\n[first.inner]\n"
        "x = 1\n"
    )


def test_numbers_of_more_digits_than_python_writes():
    long = 16**5000 - 1
    assert tomllib.loads(toml_text({"x": [long], "y": long})) == {"x": [long], "y": long}


def nested(depth: int) -> dict[str, object]:
    table: dict[str, object] = {"x": 1}
    for _ in range(depth):
        table = {"a": table}
    return table


def test_tables_are_refused_that_could_not_be_read_again():
    deepest = nested(MOST_PARTS - 1)
    assert parse_toml(toml_text(deepest)) == deepest
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    for table in (nested(MOST_PARTS), {"x": deep}):
        with pytest.raises(InputError, match="scenario: has lists or tables within over 64 others"):
            toml_text(table)


def test_without_the_library_the_same_is_written(monkeypatch, tmp_path, capsys):
    """As where the package runs from its source."""
    assert main(["scenario", "show", "paper/femnist"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    monkeypatch.chdir(tmp_path)
    assert main(["scenario", "show", "paper/femnist"]) == 0
    assert capsys.readouterr().out == whole
    few = ["--set", "rounds.global_rounds=1", "--policies", "fedrt", "--seeds", "0"]
    assert main(["estimate", "quickstart", "--out", "new", *few]) == 0
    assert load_scenario(tmp_path / "new" / "config.toml").name == "quickstart"
