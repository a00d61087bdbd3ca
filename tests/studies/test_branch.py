"""A branch goes on from another run's state with what was changed on purpose, and says so."""

from __future__ import annotations

import json
import sys

import pytest
from kill_campaign import differences
from pyarrow import parquet
from support.stopped import MINE, PLAIN, StopError, edit_json, set_line
from support.trained import go_on, start, train, trained

from fedrt.cli import main
from fedrt.records.overwrite import remove_results
from fedrt.report.page.collect import collect
from fedrt.studies.training import carry_on

STATIC = ("--policy", "static-t", "--set", "learning.learning_rate=0.1")


def stopped(path, *settings, after=3, policy="fedrt"):
    """A run that was stopped after so many rounds."""
    start(path, trained(*PLAIN, *settings), policy)
    left = iter(range(after - 1))

    def step(done):
        if next(left, None) is None:
            raise StopError

    with pytest.raises(StopError):
        carry_on(path, step, lambda line: None)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return stopped(tmp_path_factory.mktemp("branches") / "source")


def branch(source, out, *options):
    assert main(["run", "--branch", str(source), "--out", str(out), "--json", *options]) == 0
    return out


def refused(capsys, source, *options):
    out = source.parent / "refused"
    assert main(["run", "--branch", str(source), "--out", str(out), *options]) == 2
    assert not out.exists()
    return capsys.readouterr().err


def column(run, name):
    return parquet.read_table(run / "rounds.parquet")[name].to_numpy()


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus"])
def test_a_branch_that_changes_nothing_is_the_run_to_the_bit(policy, source, tmp_path):
    """Also where `fedrt` runs beside the policy: it goes on as the policy does."""
    whole = train(tmp_path / "whole", trained(*PLAIN), policy=policy)
    before = source if policy == "fedrt" else stopped(tmp_path / "source", policy=policy)
    out = branch(before, tmp_path / "branch")
    assert all(line.startswith("summary: branch: ") for line in differences(whole, out))


def test_rounds_before_are_the_old_ones_and_those_after_are_new(source, tmp_path, capsys):
    out = branch(source, tmp_path / "branch", *STATIC)
    old = train(tmp_path / "old", trained(*PLAIN))
    new = train(tmp_path / "new", trained(*PLAIN, "learning.learning_rate=0.1"), policy="static-t")
    for name in ("time_s", "energy_j_mean", "loss", "links_kept"):
        assert column(out, name)[:3].tolist() == column(old, name)[:3].tolist()
    # From there on the other policy's links: all of them, as in a run of its own.
    assert column(out, "links_kept")[3:].tolist() == column(new, "links_kept")[3:].tolist()
    assert column(out, "loss")[3:].tolist() != column(old, "loss")[3:].tolist()
    ends_at_s = column(out, "time_s").cumsum()
    assert column(out, "ends_at_s") == pytest.approx(ends_at_s, rel=1e-12)


def test_a_branch_may_begin_or_end_coded_gossip(source, tmp_path, capsys):
    """Public copies are the first model as long as nothing was coded, and stay when nothing is."""
    coded = branch(source, tmp_path / "coded", "--set", "learning.gossip=int8")
    plain = train(tmp_path / "plain", trained(*PLAIN))
    sent = [column(run, "backhaul_bytes") / column(run, "links_kept") for run in (plain, coded)]
    assert sent[0][:3].tolist() == sent[1][:3].tolist()
    assert (sent[1][3:] < sent[0][3:] / 2).all()
    began = stopped(tmp_path / "began", "learning.gossip=int8")
    ended = branch(began, tmp_path / "ended", "--set", "learning.gossip=none")
    assert (column(ended, "backhaul_bytes") / column(ended, "links_kept"))[3:].tolist() == (
        sent[0][3:].tolist()
    )


def test_a_branch_says_so_in_its_records(source, tmp_path, capsys):
    out = branch(source, tmp_path / "branch", *STATIC, "--target", "0.5")
    told = json.loads((out / "run.json").read_text())["branch"]
    assert told["from"] == str(source)
    assert told["after_global_round"] == 2
    assert told["identity"] == json.loads((source / "run.json").read_text())["identity"]
    assert told["changed"] == [
        'policy was changed from "fedrt" to "static-t"',
        "scenario.learning.learning_rate was changed from 0.05 to 0.1",
        'options.targets was changed from "[]" to "[0.5]"',
    ]
    assert json.loads((out / "summary.json").read_text())["branch"] == told
    assert (out / "before" / "config.toml").read_text() == (source / "config.toml").read_text()
    (note,) = collect([out])["notes"]
    assert note.startswith(f"branch is a branch of {source} after global round 3: policy was")
    # The source itself is as it was, and still goes on.
    assert not (source / "summary.json").exists()


def test_a_stopped_branch_goes_on_and_a_branch_of_it_too(source, tmp_path):
    whole = branch(source, tmp_path / "whole", *STATIC)

    def first(path, at):
        words = ["run", "--branch", str(at), "--out", str(path), "--json", *STATIC]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedrt.api.training._trained", lambda path, **more: {"policy": ""})
            assert main(words) == 0

        def step(done):
            if done.last.t == 3:
                raise StopError

        with pytest.raises(StopError):
            carry_on(path, step, lambda line: None)
        return path

    cut = first(tmp_path / "cut", source)
    again = branch(cut, tmp_path / "again")
    go_on(cut)
    assert differences(whole, cut) == []
    assert all(line.startswith("summary: branch: ") for line in differences(whole, again))
    assert (again / "before" / "before" / "run.json").is_file()
    remove_results(again)  # all of it is our own: --overwrite may take it
    assert not again.exists()


REFUSED = {
    "fleet.num_devices=8": "a branch cannot change scenario.fleet.num_devices",
    "learning.model='resnet20'": "a branch cannot change scenario.learning.model",
    "rounds.global_rounds=3": "rounds.global_rounds = 3: must be more than the 3 that are done",
    "faults.deadline_s=5": "a branch cannot begin or end scenario.faults",
    "learning.batch_size=0": "scenario.learning.batch_size = 0: must be",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_a_branch_cannot_change(setting, source, capsys):
    extra = ["--set", "fleet.cluster_sizes=even"] if "num_devices" in setting else []
    assert REFUSED[setting] in refused(capsys, source, "--set", setting, *extra)


def test_what_cannot_be_branched(source, tmp_path, capsys):
    assert "not --seed" in refused(capsys, source, "--seed", "1")
    assert "not SCENARIO" in refused(capsys, source, "quickstart")
    assert "--resume: takes everything" in refused(capsys, source, "--resume", str(source))
    ended = train(tmp_path / "ended", trained(*PLAIN))
    assert "has ended" in refused(capsys, ended)
    fresh = start(tmp_path / "fresh", trained(*PLAIN))
    assert "has no checkpoint to branch from" in refused(capsys, fresh)
    assert "is not a run directory" in refused(capsys, tmp_path / "nothing")
    edited = stopped(tmp_path / "edited", after=1)
    set_line(edited / "config.toml", "learning_rate", "0.2")
    assert "cannot be branched, for since it was started" in refused(capsys, edited)


def test_what_was_before_a_branch_cannot_be_edited_unseen(source, tmp_path, capsys):
    out = tmp_path / "branch"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedrt.api.training._trained", lambda path, **more: {"policy": ""})
        assert main(["run", "--branch", str(source), "--out", str(out), "--json"]) == 0
    set_line(out / "before" / "config.toml", "batch_size", "8")
    assert main(["run", "--resume", str(out)]) == 2
    assert "before/config.toml was changed" in capsys.readouterr().err


def test_a_policy_whose_source_was_changed_can_be_branched(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.delitem(sys.modules, "helping", raising=False)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helping.py").write_text("STEPS = 2\n")
    run = stopped(tmp_path / "run", policy="mine:Mine", after=1)
    (tmp_path / "mine.py").write_text(MINE + "# mended\n")
    out = branch(run, tmp_path / "branch", "--allow-code")
    (line,) = json.loads((out / "run.json").read_text())["branch"]["changed"]
    assert line == "the source of mine:Mine (helping.py, mine.py) was changed"


def test_a_damaged_branch_is_a_line(source, tmp_path, capsys):
    out = tmp_path / "branch"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedrt.api.training._trained", lambda path, **more: {"policy": ""})
        assert main(["run", "--branch", str(source), "--out", str(out), "--json"]) == 0
    for wrong in (7, {}, {"after_global_round": -1}, {"after_global_round": 10**9}):
        edit_json(out / "run.json", lambda data, wrong=wrong: data.update(branch=wrong))
        assert main(["run", "--resume", str(out)]) == 2
        assert "branch.after_global_round" in capsys.readouterr().err
