"""A tuning file that is missing, damaged or edited is told, and where the bits of a run move."""

from __future__ import annotations

import json
import shutil

import pytest
from kill_campaign import differences
from support.stopped import PLAIN, StopError, edit_json, stop
from support.trained import start, trained

from fedrt.learning.stacked.tuning_cache import cache_file, cache_note
from fedrt.records.options import RunOptions
from fedrt.studies.compare import go_on, read_comparison, start_comparison
from fedrt.studies.training import carry_on

STACKED = {"engine": "stacked", "workers": 1}


def stopped(path):
    start(path, trained(*PLAIN), **STACKED)
    with pytest.raises(StopError):
        carry_on(path, stop, lambda line: None)
    return path


def resumed(run):
    """Go on to the end; what was said of the tuning."""
    lines = []
    carry_on(run, note=lines.append)
    return [line for line in lines if "tuning.json" in line]


def test_a_whole_file_is_nothing_to_tell(tmp_path):
    run = stopped(tmp_path / "run")
    tuning = json.loads((run / "tuning.json").read_text())["tuning"]
    assert json.loads((run / "identity.json").read_text())["later"]["tuning"] == tuning
    assert resumed(run) == []


WRONG = {
    "missing": lambda file: file.unlink(),
    "no JSON": lambda file: file.write_text("{"),
    "no table": lambda file: file.write_text("7"),
    "nested": lambda file: file.write_text("[" * 100_000),
    "no number": lambda file: edit_json(file, lambda data: data["tuning"].update(chunk="4")),
    "below 1": lambda file: edit_json(file, lambda data: data["tuning"].update(chunk=0)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_missing_or_damaged_file_is_told_and_costs_no_bit(wrong, tmp_path):
    run = stopped(tmp_path / "run")
    tuning = (run / "tuning.json").read_text()
    WRONG[wrong](run / "tuning.json")
    (line,) = resumed(run)
    assert ("is missing" if wrong == "missing" else "is damaged") in line
    assert "written again as the run began" in line
    assert json.loads((run / "tuning.json").read_text()) == json.loads(tuning)


def test_an_edited_file_is_used_and_resuming_says_that_bits_move(tmp_path):
    run = stopped(tmp_path / "run")
    kept = json.loads((run / "tuning.json").read_text())["tuning"]["chunk"]
    edit_json(run / "tuning.json", lambda data: data["tuning"].update(chunk=kept + 1))
    (line,) = resumed(run)
    assert f"was edited: it says chunk {kept + 1}" in line
    assert f"the run began with chunk {kept}" in line
    assert "does not have the bits" in line


def test_a_run_from_before_is_told_of_a_missing_file(tmp_path):
    run = stopped(tmp_path / "run")
    edit_json(run / "run.json", lambda data: data.pop("identity"))
    (run / "identity.json").unlink()
    (run / "tuning.json").unlink()
    (line,) = resumed(run)
    assert "is missing: tuned anew" in line


def test_the_file_of_a_comparison_counts_too(tmp_path):
    out = tmp_path / "compared"
    said = start_comparison(trained(*PLAIN), ["fedrt"], [0], out, RunOptions(**STACKED))
    with pytest.raises(StopError):
        go_on(said, stop3, lambda line: None)
    (out / "tuning.json").unlink()
    lines = []
    go_on(read_comparison(out), note=lines.append)
    assert any("tuning.json: is missing: written again" in line for line in lines)


def stop3(name, seed, done):
    raise StopError


def test_the_bits_are_those_of_an_untouched_run(tmp_path):
    run = stopped(tmp_path / "run")
    whole = start(tmp_path / "whole", trained(*PLAIN), **STACKED)
    shutil.copyfile(run / "tuning.json", whole / "tuning.json")
    (run / "tuning.json").unlink()
    resumed(run)
    assert resumed(whole) == []
    assert differences(whole, run) == []


@pytest.mark.parametrize("text", ["{", "7", "[" * 100_000])
def test_a_damaged_cache_of_the_machine_is_told(text, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_note() == ()
    cache_file().parent.mkdir(parents=True)
    cache_file().write_text(text)
    (line,) = cache_note()
    assert line.startswith(f"note: {cache_file()}: is damaged")
