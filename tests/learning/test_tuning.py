"""Chunks and workers: measured once, remembered, overridable."""

from __future__ import annotations

import json

import pytest
from learning_cases import engine_case, small

from fedrt.learning import setup as setups
from fedrt.learning import tuning as tunings
from fedrt.learning.engine import DivergedError
from fedrt.learning.engine_stacked import StackedEngine
from fedrt.learning.setup import make_setup
from fedrt.learning.tuning import CHUNKS, Tuning, cache_file, cores, remembered, tune
from fedrt.learning.workers import WorkerEngine
from fedrt.world.world import World

FOUND = Tuning(chunk=4, workers=2, compiled=False)
SMALL = Tuning(chunk=2, workers=1, compiled=False)
GOOD = {"chunk": 3, "workers": 1, "compiled": True}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedrt" / "tuning.json"


def never() -> Tuning:
    raise AssertionError("measured again")


def counted(monkeypatch, found: Tuning = SMALL) -> list[int]:
    """A `tune` that says what it is told, and the numbers of steps it was asked for."""
    asked: list[int] = []

    def fake(make, models, devices, steps):
        asked.append(steps)
        return found

    monkeypatch.setattr(setups, "tune", fake)
    return asked


def test_what_was_measured_is_kept_beside_what_was_there(tmp_path):
    file = tmp_path / "new" / "tuning.json"
    assert remembered(file, "one", lambda: FOUND) == FOUND
    assert remembered(file, "one", never) == FOUND
    other = Tuning(64, 1, compiled=True)
    assert remembered(file, "two", lambda: other) == other
    assert remembered(file, "one", never) == FOUND
    assert remembered(file, "two", never) == other
    assert [path.name for path in file.parent.iterdir()] == ["tuning.json"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"3",
        b"null",
        b"[1, 2]",
        b"\xff\xfe",
        b'{"key": 3}',
        b'{"key": {}}',
        *(
            json.dumps({"key": {**GOOD, name: value}}).encode()
            for name in ("chunk", "workers")
            for value in (0, -1, 2.5, "4", None, True)
        ),
        json.dumps({"key": {**GOOD, "compiled": "yes"}}).encode(),
        json.dumps({"key": {**GOOD, "more": 1}}).encode(),
    ],
)
def test_a_damaged_file_is_measured_anew_and_mended(tmp_path, text):
    file = tmp_path / "tuning.json"
    file.write_bytes(text)
    assert remembered(file, "key", lambda: FOUND) == FOUND
    assert remembered(file, "key", never) == FOUND


def test_a_file_that_cannot_be_kept_is_no_reason_to_stop(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("no directory")
    assert remembered(taken / "tuning.json", "key", lambda: FOUND) == FOUND
    directory = tmp_path / "tuning.json"
    directory.mkdir()
    assert remembered(directory, "key", lambda: FOUND) == FOUND
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken", "tuning.json"]


def test_the_cache_is_where_the_user_keeps_such(cache, monkeypatch, tmp_path):
    assert cache_file() == cache
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_file() == tmp_path / ".cache" / "fedrt" / "tuning.json"


@pytest.mark.parametrize("devices", [1, 3, 9])
def test_a_measurement_gives_something_valid(devices):
    case = engine_case("stacked")
    sizes = []

    def make(chunk: int) -> StackedEngine:
        sizes.append(chunk)
        return StackedEngine(
            case.flat,
            case.samples,
            case.batches,
            learning_rate=0.05,
            momentum=0.9,
            augment=False,
            chunk=chunk,
        )

    kept = case.models.clone()
    found = tune(make, case.models, devices, steps=10)
    assert found.chunk in CHUNKS
    assert found.chunk <= devices
    assert found.workers == 1, "ten steps are not worth a process"
    assert not found.compiled
    assert max(sizes) <= devices
    assert (case.models == kept).all()
    assert tune(make, case.models, devices, 10**9).workers == min(cores(), devices)


def test_a_setup_measures_once_per_machine_and_job(monkeypatch, cache):
    asked = counted(monkeypatch)
    scenario = small()
    first = make_setup(World(scenario, 0), engine="stacked")
    assert isinstance(first.engine, StackedEngine)
    assert first.engine.chunk == 2
    assert asked == [4 * 2 * 2 * 7]
    assert len(json.loads(cache.read_text())) == 1
    make_setup(World(scenario, 1), engine="stacked")
    assert len(asked) == 1
    make_setup(World(small("learning.batch_size=4"), 0), engine="stacked")
    assert len(asked) == 2
    make_setup(World(scenario, 0), engine="sequential")
    assert len(asked) == 2


def test_what_is_given_wins(monkeypatch, cache, tmp_path):
    asked = counted(monkeypatch, Tuning(2, 5, compiled=False))
    world = World(small(), 0)
    made = make_setup(world, engine="stacked", chunk=3, workers=1, tuning_file=tmp_path / "t")
    assert made.engine.chunk == 3
    assert asked == []
    assert not cache.exists()
    made = make_setup(world, engine="stacked", workers=1)
    assert (type(made.engine), made.engine.chunk) == (StackedEngine, 2)
    started = []
    monkeypatch.setattr(WorkerEngine, "__init__", lambda self, *args: started.append(args))
    make_setup(world, engine="stacked", chunk=6)
    make_setup(world, engine="stacked", chunk=6, workers=3)
    assert [(recipe.chunk, workers) for recipe, _, workers in started] == [(6, 5), (6, 3)]


def test_a_run_keeps_to_its_own_file(monkeypatch, cache, tmp_path):
    """A resumed run trains as it began, whatever the machine is known for by then."""
    counted(monkeypatch)
    world, file = World(small(), 0), tmp_path / "run" / "tuning.json"
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2
    cache.unlink()
    asked = counted(monkeypatch, Tuning(5, 1, compiled=False))
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2
    assert asked == []
    assert make_setup(world, engine="stacked").engine.chunk == 5
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2


def test_a_trial_that_diverges_is_no_round_of_the_run():
    """It is the run's first round that stops with a message."""
    case = engine_case("stacked", learning_rate=1e30)
    case.models *= 1e30
    with pytest.raises(DivergedError):
        case.train()
    assert tune(lambda chunk: case.engine, case.models, 7, 5).chunk in CHUNKS


def test_a_short_trial_decides_by_time(monkeypatch):
    """The quickest chunk wins; a much slower one ends the search."""
    seconds = {1: 3.0, 4: 1.0, 8: 1.2, 16: 2.0, 32: 0.1}
    tried = []

    def fake(engine, models, chunk):
        tried.append(chunk)
        return seconds[chunk]

    monkeypatch.setattr(tunings, "_seconds_a_step", fake)
    case = engine_case("stacked")
    assert tune(lambda chunk: None, case.models, 40, 5).chunk == 4
    assert tried == [1, 4, 8, 16]
