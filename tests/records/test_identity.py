"""A run goes on only with what it was started with; what changed is named."""

from __future__ import annotations

import json
import random
import shutil
import sys

import numpy as np
import pytest
from support.stopped import MINE, PLAIN, StopError, edit_json, set_line, stop
from support.trained import OPTIONS, go_on, start, trained

from fedrt.cli import main
from fedrt.data.catalogue import Dataset
from fedrt.data.digest import data_digest
from fedrt.errors import InputError
from fedrt.records.identity import changes, file_digest, identity_of
from fedrt.studies.compare import go_on as go_on_comparing
from fedrt.studies.compare import read_comparison, start_comparison
from fedrt.studies.training import carry_on


def stopped(path, *settings, policy="fedrt", **options):
    """A run that was stopped after its first round."""
    start(path, trained(*settings), policy, **options)
    with pytest.raises(StopError):
        carry_on(path, stop, note=lambda line: None)
    return path


def refused(run, capsys, *options):
    """The one line that going on ends with; no file but the lock has changed."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["run", "--resume", str(run), *options]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1, line
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    before.pop(run / ".lock", None), after.pop(run / ".lock", None)
    assert after == before
    return line


CONFIG = {
    "learning rate": (
        "learning_rate",
        "0.1",
        "scenario.learning.learning_rate was changed from 0.05",
    ),
    "batch size": ("batch_size", "8", "scenario.learning.batch_size was changed from 4 to 8"),
    "momentum": ("momentum", "0.5", "scenario.learning.momentum"),
    "budgets": ("energy_j_per_edge_round", "2.0", "scenario.fleet.energy_j_per_edge_round"),
    "channel": ("high_db", "16.0", "scenario.channel.high_db was changed from 15.0 to 16.0"),
    "local steps": ("local_steps", "3", "scenario.rounds.local_steps"),
    "rounds": ("global_rounds", "6", "scenario.rounds.global_rounds"),
    "radio": ("tx_power_w", "0.02", "scenario.fleet.tx_power_w"),
    "limit": ("kappa", "0.4", "scenario.control.kappa"),
    "evaluation": ("evaluate_every", "3", "scenario.learning.evaluate_every"),
}
RUN = {
    "seed": (lambda run: run.update(seed=1), 'seed was changed from "0" to "1"'),
    "policy": (lambda run: run.update(policy="static-t"), 'policy was changed from "fedrt" to'),
    "engine": (lambda run: run["options"].update(engine="stacked"), "options.engine was changed"),
    "chunk": (lambda run: run["options"].update(chunk=2), "options.chunk was changed from null to"),
    "targets": (lambda run: run["options"].update(targets=[0.5]), "options.targets"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run that was stopped, to be copied; it has no code of its own."""
    return stopped(tmp_path_factory.mktemp("identity") / "run", *PLAIN)


@pytest.fixture
def run(plain, tmp_path):
    return shutil.copytree(plain, tmp_path / "run")


@pytest.mark.parametrize("name", CONFIG)
def test_an_edited_setting_is_named(name, run, capsys):
    key, value, words = CONFIG[name]
    set_line(run / "config.toml", key, value)
    assert words in refused(run, capsys)


def test_another_number_of_devices_is_named(run, capsys):
    set_line(run / "config.toml", "num_devices", "8")
    set_line(run / "config.toml", "cluster_sizes", "[2, 3, 3]")
    line = refused(run, capsys)
    assert "scenario.fleet.num_devices was changed from 7 to 8" in line
    assert "scenario.fleet.cluster_sizes" in line


@pytest.mark.parametrize("name", RUN)
def test_an_edited_run_is_named(name, run, capsys):
    change, words = RUN[name]
    edit_json(run / "run.json", change)
    line = refused(run, capsys)
    assert words in line
    assert "--branch" in line


def test_a_flipped_bit_in_the_config_never_passes_unseen(run, capsys):
    """Every flip is refused, or leaves the scenario what it was."""
    path, rng = run / "config.toml", random.Random(0)
    whole = path.read_bytes()
    digits = [i for i, byte in enumerate(whole) if chr(byte).isdigit()]
    for place in rng.sample(digits, 25):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        refused(run, capsys)
    path.write_bytes(whole)
    assert go_on(run)["global_rounds"] == 5


def test_what_a_run_was_started_with_cannot_be_lost_or_edited_unseen(run, capsys):
    path = run / "identity.json"
    whole = path.read_text()
    edit_json(path, lambda data: data["said"].update({"scenario.learning.learning_rate": 0.1}))
    set_line(run / "config.toml", "learning_rate", "0.1")
    assert "identity.json: is damaged or was edited" in refused(run, capsys)
    path.write_text("{")
    assert "identity.json: cannot be read" in refused(run, capsys)
    path.unlink()
    assert "identity.json: cannot be read: No such file" in refused(run, capsys)
    path.write_text(whole)
    assert "learning_rate" in refused(run, capsys)


def test_a_run_from_before_goes_on_with_a_note(run, capsys):
    edit_json(run / "run.json", lambda data: data.pop("identity"))
    (run / "identity.json").unlink()
    assert main(["run", "--resume", str(run), "--json"]) == 0
    assert "cannot be seen" in capsys.readouterr().err


def test_nothing_changed_is_nothing_to_tell(run, capsys):
    assert main(["run", "--resume", str(run), "--json"]) == 0
    assert "note" not in capsys.readouterr().err


def arrays(shift=0.0):
    rng = np.random.default_rng(0)
    images, labels = rng.random((90, 8, 8, 1), dtype=np.float32), np.arange(90) % 10
    images[3, 2, 1, 0] += np.float32(shift)
    return {
        "x_train": images[:70],
        "y_train": labels[:70],
        "x_test": images[70:],
        "y_test": labels[70:],
    }


def test_a_replaced_data_file_is_refused_and_a_moved_one_is_not(tmp_path, capsys):
    np.savez(tmp_path / "mine.npz", **arrays())
    settings = (*PLAIN, f"learning.dataset='{tmp_path / 'mine.npz'}'")
    run = stopped(tmp_path / "run", *settings)
    np.savez(tmp_path / "mine.npz", **arrays(1e-3))
    assert "cannot go on: the data are not those it was started with" in refused(run, capsys)
    np.savez(tmp_path / "moved.npz", **arrays())
    (tmp_path / "mine.npz").unlink()
    set_line(run / "config.toml", "dataset", f'"{tmp_path / "moved.npz"}"')
    assert go_on(run)["global_rounds"] == 5


def test_an_edited_trace_is_refused(tmp_path, capsys):
    trace = tmp_path / "snr.csv"
    rows = [f"{t},{r},{n},{10 + n}" for t in range(5) for r in range(2) for n in range(7)]
    trace.write_text("\n".join(["global_round,edge_round,device,snr_db", *rows]))
    run = stopped(tmp_path / "run", *PLAIN, f"channel={{kind='trace',file='{trace}'}}")
    trace.write_text(trace.read_text().replace("0,0,0,10", "0,0,0,11"))
    assert "scenario.channel.file was changed" in refused(run, capsys)


def test_the_source_of_ones_own_policy_counts_and_what_it_imports(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("mine", "helping"):  # other tests have modules of these names
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helping.py").write_text("STEPS = 2\n")
    run = stopped(tmp_path / "run", *PLAIN, policy="mine:Mine")
    for name, text in (("mine.py", MINE + "# more\n"), ("helping.py", "STEPS = 3\n")):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text)
        line = refused(run, capsys, "--allow-code")
        assert "the source of mine:Mine (helping.py, mine.py) was changed" in line
        (tmp_path / name).write_text(before)
    assert go_on(run)["policy"] == "mine"


def test_comparisons_and_their_runs_are_checked(tmp_path, capsys):
    out = tmp_path / "compared"
    said = start_comparison(trained(*PLAIN), ["fedrt", "static-t"], [0], out, OPTIONS)

    def step(name, seed, done):
        raise StopError

    with pytest.raises(StopError):
        go_on_comparing(said, step, lambda line: None)

    def line():
        assert main(["compare", "--resume", str(out)]) == 2
        return capsys.readouterr().err

    config = out / "config.toml"
    whole = config.read_text()
    set_line(config, "learning_rate", "0.1")
    assert "compared: cannot go on" in line()
    config.write_text(whole)
    edit_json(out / "run.json", lambda data: data.update(seeds=[1]))
    assert 'seed was changed from "0" to "1"' in line()
    edit_json(out / "run.json", lambda data: data.update(seeds=[0]))
    inner = out / "static-t-0" / "config.toml"
    set_line(inner, "batch_size", "8")
    assert "static-t-0: cannot go on" in line()
    inner.write_text(whole)
    results = go_on_comparing(read_comparison(out), note=lambda line: None)
    assert [len(runs) for runs in results.values()] == [1, 1]


def test_the_digest_of_data_sees_every_value_and_does_not_copy():
    given = arrays()

    def digest(**changed):
        x, y, x2, y2 = (changed.get(name, given[name]) for name in given)
        return data_digest(Dataset("mine", x, y, x2, y2, 10))

    whole = digest()
    assert digest() == whole
    assert digest(x_train=given["x_train"].copy()) == whole
    for name, array in given.items():
        other = array.copy()
        other.reshape(-1)[-1] += 1
        assert digest(**{name: other}) != whole, name
    assert digest(x_train=given["x_train"].reshape(70, 64, 1, 1)) != whole
    # Rows that do not lie one after the other in memory have the digest of their copy.
    wide = np.repeat(given["x_train"], 2, axis=0)[::2]
    assert digest(x_train=wide) == whole


def test_settings_of_any_kind_have_an_identity():
    scenario = trained(
        "channel={kind='support.trained:Softmax',a=inf,b=1979-05-27,c=[1,2],d={e=true}}"
    )
    big = identity_of(scenario, ["fedrt"], [0], {"chunk": 10**400, "targets": ()})
    assert json.loads(json.dumps(big.said, allow_nan=False)) == big.said
    same = identity_of(scenario, ["fedrt"], [0], {"chunk": 10**400, "targets": ()})
    assert changes(big.said, same.said) == []
    assert changes({"a": 1}, {"a": True, "b": 2}) == [
        "a was changed from 1 to true",
        "b was set to 2",
    ]


def test_a_file_that_cannot_be_read_is_a_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        file_digest(tmp_path / "nothing")
