"""Form, chunk and workers: measured once, chosen from that alone, remembered, overridable."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.learning_cases import engine_case, method, small

from fedrt.learning import setup as setups
from fedrt.learning.engines.engine import DivergedError
from fedrt.learning.material import make_material
from fedrt.learning.models.architectures import make_model
from fedrt.learning.setup import find_tuning, make_setup
from fedrt.learning.stacked import tuning as tunings
from fedrt.learning.stacked.engine import FORMS, PLAIN, StackedEngine
from fedrt.learning.stacked.tuning import CHUNKS, Trial, Trials, Tuning, choose, forms_for, measure
from fedrt.learning.stacked.tuning_cache import cache_file, machine, read_trials, read_tuning
from fedrt.learning.stacked.tuning_cache import remembered as remembered_by
from fedrt.learning.stacked.workers import WorkerEngine
from fedrt.system.machine import cores
from fedrt.world.simulated import SimulatedWorld

remembered = partial(remembered_by, read=read_tuning)

FOUND = Tuning(chunk=4, workers=2, compiled=False, form="rows")
GOOD = {"chunk": 3, "workers": 1, "compiled": True, "form": "grouped"}
TWO = Trials((Trial("plain", 1, 1, 2e-3), Trial("grouped", 2, 1, 1e-3)))
FIVE = Trials((Trial("plain", 1, 1, 2e-3), Trial("grouped", 5, 1, 1e-3)))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedrt" / "tuning.json"


def never() -> Tuning:
    raise AssertionError("measured again")


def counted(monkeypatch, found: Trials = TWO) -> list[tuple[str, ...]]:
    """A `measure` that says what it is told, and the forms it was asked for."""
    asked: list[tuple[str, ...]] = []

    def fake(make, models, devices, forms):
        asked.append(tuple(forms))
        return found

    monkeypatch.setattr(setups, "measure", fake)
    return asked


def test_what_was_measured_is_kept_beside_what_was_there(tmp_path):
    file = tmp_path / "new" / "tuning.json"
    assert remembered(file, "one", lambda: FOUND) == FOUND
    assert remembered(file, "one", never) == FOUND
    other = Tuning(64, 1, compiled=True, form="grouped")
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
        json.dumps({"key": {**GOOD, "form": "fast"}}).encode(),
        json.dumps({"key": {**GOOD, "form": ["rows"]}}).encode(),
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


TRIAL = {"form": "plain", "chunk": 1, "threads": 1, "seconds": 0.5}


@pytest.mark.parametrize(
    "kept",
    [
        {"trials": []},
        {"trials": [{**TRIAL, "form": "rows"}]},
        *(
            {"trials": [TRIAL, {**TRIAL, name: value}]}
            for name, values in {
                "form": ("fast", 3),
                "chunk": (0, 1.5, True),
                "threads": (0, None),
                "seconds": (0.0, -1.0, 1, math.inf, math.nan, "1"),
            }.items()
            for value in values
        ),
        {"other": [TRIAL]},
        [TRIAL],
        3,
    ],
)
def test_damaged_trials_are_measured_anew(tmp_path, kept):
    file = tmp_path / "tuning.json"
    file.write_text(json.dumps({"key": kept}))
    assert remembered_by(file, "key", lambda: TWO, read_trials) == TWO
    assert remembered_by(file, "key", never, read_trials) == TWO


def trial_engines(case, made: list[tuple[str, int]]):
    """Makes engines of a case, and notes which."""

    def make(form: str, chunk: int) -> StackedEngine:
        made.append((form, chunk))
        parts = (case.flat, case.samples, case.batches, method())
        return StackedEngine(*parts, augment=False, chunk=chunk, form=form)

    return make


@pytest.mark.parametrize("devices", [1, 3, 9])
def test_a_measurement_tries_every_form_and_changes_nothing(devices):
    case = engine_case("stacked")
    made: list[tuple[str, int]] = []
    kept, threads = case.models.clone(), torch.get_num_threads()
    found = measure(trial_engines(case, made), case.models, devices)
    assert [form for form, chunk in made if chunk == 1] == list(FORMS)
    assert max(chunk for _, chunk in made) <= devices
    assert len(set(made)) == len(made)
    assert {(trial.form, trial.chunk) for trial in found.trials} == set(made)
    assert (case.models == kept).all()
    assert torch.get_num_threads() == threads
    brief, long = (choose(found, devices, steps) for steps in (10, 10**9))
    assert brief.workers == 1, "ten steps are not worth a process"
    assert long.workers == min(cores(), devices)
    for chosen in (brief, long):
        assert chosen.chunk in CHUNKS
        assert not chosen.compiled


def test_the_module_itself_is_always_tried():
    """So what is chosen is never slower than one device after the other."""
    shapes = {"lenet5": (1, 28, 28), "support.learning_cases:Linear": (1, 4, 4)}
    for name, shape in shapes.items():
        for brief in (True, False):
            forms = forms_for(make_model(name, shape, 10, 0), brief=brief)
            assert "plain" in forms
            assert "grouped" in forms
    lenet = make_model("lenet5", (1, 28, 28), 10, 0)
    assert forms_for(lenet, brief=False) == FORMS
    assert forms_for(lenet, brief=True) == ("plain", "channels-last", "grouped")
    with pytest.raises(ValueError, match="module itself"):
        Trials((Trial("direct", 1, 1, 1.0),))


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(FORMS), st.sampled_from(CHUNKS)),
        st.floats(1e-6, 1e3),
        min_size=1,
        max_size=12,
    ),
    st.floats(1e-6, 1e3),
    st.integers(1, 100),
    st.sampled_from([1, 10**3, 10**9]),
    st.sampled_from([None, 1, 2, 5]),
)
def test_the_fastest_that_was_measured_is_chosen(took, plain, devices, steps, workers):
    took = {key: value for key, value in took.items() if key[0] not in PLAIN or key[1] == 1}
    took["plain", 1] = plain
    trials = Trials(tuple(Trial(*key, 1, seconds) for key, seconds in took.items()))
    found = choose(trials, devices, steps, workers=workers)
    assert took[found.form, found.chunk] == min(took.values()) <= plain
    if workers is not None:
        assert found.workers == workers


def test_one_process_counts_with_its_threads_and_several_with_one_each():
    fast, slow = Trial("plain", 1, 2, 0.1), Trial("plain", 1, 1, 0.5)
    trials = Trials((slow, Trial("grouped", 4, 1, 0.3), Trial("grouped", 4, 2, 0.2), fast))
    alone = choose(trials, 9, 10**6, workers=1, threads=2)
    assert (alone.form, alone.workers) == ("plain", 1)
    many = choose(trials, 9, 10**6, workers=4, threads=2)
    assert (many.form, many.chunk, many.workers) == ("grouped", 4, 4)
    assert choose(trials, 9, 10**6, workers=1, threads=1).form == "grouped"


def test_a_chunk_that_is_given_is_of_the_forms_that_have_chunks():
    trials = (Trial("plain", 1, 1, 0.1), Trial("rows", 4, 1, 0.3), Trial("direct", 4, 1, 0.2))
    trials = (*trials, Trial("rows", 16, 1, 0.2), Trial("direct", 16, 1, 0.3))
    for chunk, form in ((1, "direct"), (4, "direct"), (9, "direct"), (12, "rows"), (40, "rows")):
        found = choose(Trials(trials), 50, 10, chunk=chunk, workers=1)
        assert (found.form, found.chunk) == (form, chunk)


def test_a_setup_measures_once_per_machine_and_job(monkeypatch, cache):
    asked = counted(monkeypatch)
    scenario = small()
    first = make_setup(SimulatedWorld(scenario, 0), engine="stacked")
    assert isinstance(first.engine, StackedEngine)
    assert (first.engine.chunk, first.engine.form) == (2, "grouped")
    assert asked == [("plain", "channels-last", "grouped")], "a brief run loads no kernels"
    assert len(json.loads(cache.read_text())) == 1
    make_setup(SimulatedWorld(scenario, 1), engine="stacked")
    make_setup(SimulatedWorld(scenario, 1), engine="stacked", chunk=3, workers=1)
    assert len(asked) == 1
    make_setup(SimulatedWorld(small("learning.batch_size=4"), 0), engine="stacked")
    assert len(asked) == 2
    make_setup(SimulatedWorld(scenario, 0), engine="sequential")
    assert len(asked) == 2
    make_setup(SimulatedWorld(small("rounds.global_rounds=100000"), 0), engine="stacked", workers=1)
    assert asked[2:] == [FORMS]


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"])
def test_other_instructions_are_another_machine(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    before = machine()
    monkeypatch.setenv(name, "AVX2")
    assert machine() != before
    assert torch.__version__ in machine()


def test_what_is_given_wins(monkeypatch, cache, tmp_path):
    counted(monkeypatch)
    world = SimulatedWorld(small(), 0)
    made = make_setup(world, engine="stacked", chunk=3, workers=1, tuning_file=tmp_path / "t")
    assert (made.engine.chunk, made.engine.form) == (3, "grouped")
    made = make_setup(world, engine="stacked", workers=1)
    assert (type(made.engine), made.engine.chunk) == (StackedEngine, 2)
    started = []
    monkeypatch.setattr(WorkerEngine, "__init__", lambda self, *args: started.append(args))
    make_setup(world, engine="stacked", chunk=6, workers=3)
    assert [(r.chunk, r.form, workers) for r, _, workers in started] == [(6, "grouped", 3)]


def test_a_run_keeps_to_its_own_file(monkeypatch, cache, tmp_path):
    """A resumed run trains as it began, whatever the machine is known for by then."""
    counted(monkeypatch)
    world, file = SimulatedWorld(small(), 0), tmp_path / "run" / "tuning.json"
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2
    cache.unlink()
    asked = counted(monkeypatch, FIVE)
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2
    assert asked == []
    assert make_setup(world, engine="stacked").engine.chunk == 5
    assert make_setup(world, engine="stacked", tuning_file=file).engine.chunk == 2


def test_a_measurement_leaves_the_model_as_it_was():
    """Also where its first state is asked for afterwards."""
    world = SimulatedWorld(small(), 0)
    material = make_material(world, torch.device("cpu"), None)
    before = material.model.state()
    find_tuning(world, material, None, None, None)
    assert torch.equal(material.model.state(), before)


def test_a_trial_that_diverges_is_no_round_of_the_run():
    """It is the run's first round that stops with a message."""
    case = engine_case("stacked", learning_rate=1e30)
    case.models *= 1e30
    with pytest.raises(DivergedError):
        case.train()
    assert measure(lambda form, chunk: case.engine, case.models, 7).trials


def test_all_threads_are_measured_too_and_put_back(monkeypatch):
    """Of the module itself and of the fastest other form."""
    monkeypatch.setattr(
        tunings, "_seconds_a_step", lambda *args: 1e-3 * torch.get_num_threads() / args[2]
    )
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        found = measure(lambda *key: key, engine_case("stacked").models, 4)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    many = [(trial.form, trial.chunk, trial.seconds) for trial in found.trials if trial.threads > 1]
    assert many == [("plain", 1, 2e-3), ("channels-last", 1, 2e-3), ("grouped", 4, 5e-4)]
    assert all(trial.threads == 1 for trial in found.trials[: -len(many)])


def test_a_search_ends_where_chunks_pay_no_more(monkeypatch):
    """Fake times: a chunk no faster than the last ends a form; one far behind does too."""
    seconds = {
        ("plain", 1): 3.0,
        ("grouped", 1): 9.0,
        ("grouped", 4): 2.0,
        ("grouped", 8): 1.0,
        ("grouped", 16): 1.1,
        ("rows", 1): 0.9,
        ("rows", 4): 1.7,
        ("direct", 1): 1.2,
        ("direct", 4): 1.0,
        ("direct", 8): 0.5,
        ("direct", 16): 0.495,
        ("direct", 32): 0.6,
    }
    tried = []

    def fake(engine, models, chunk, steps):
        if engine not in tried:
            tried.append(engine)
        assert engine[1] == chunk
        return seconds[engine] / 1e3

    monkeypatch.setattr(tunings, "_seconds_a_step", fake)
    case = engine_case("stacked")
    forms = ("plain", "grouped", "rows", "direct")
    found = measure(lambda *key: key, case.models, 40, forms)
    assert tried == [key for key in seconds if key != ("direct", 32)]
    assert choose(found, 40, 5).form == "direct"
    assert choose(found, 40, 5).chunk == 16
    slow = measure(lambda *key: key, case.models, 3, ("plain", "grouped"))
    assert [trial.chunk for trial in slow.trials] == [1, 1]
