"""A coordinator that is started again, with three and four edge servers and dropped links."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest
from support.parties import spread
from support.recorded import check_read_back
from support.running import running

from fedrt.callbacks.base import Callback
from fedrt.devices.coordinator.run import coordinate
from fedrt.errors import InputError
from fedrt.records.records import RunSize

ROUNDS = 4
SLOW = 'backhaul={kind="uniform",low_bps=1e4,high_bps=1e6}'
"""The first plan leaves a link out under every policy that drops any."""
CASES = {
    "three, fedrt": (3, "fedrt", 2),
    "three, one edge round, fedrt": (3, "fedrt", 1),
    "four, one edge round, fedrt-plus": (4, "fedrt-plus", 1),
    "four, fedrt": (4, "fedrt", 2),
}


def scenario_of(edges, edge_rounds):
    length = f"global_rounds={ROUNDS},edge_rounds={edge_rounds},local_steps=2,gossip_steps=2"
    return spread(edges, edges + 1, f"rounds={{{length}}}", SLOW)


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_whatever_pairs_were_not_compared(case, tmp_path):
    edges, policy, edge_rounds = CASES[case]
    scenario, done, notes = scenario_of(edges, edge_rounds), [], []

    def stop(last):
        done.append(last)
        if len(done) == ROUNDS - 1:
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(KeyboardInterrupt):
            fleet.coordinate(policy, progress=stop)
        # What was saved is what happened, missing distances included.
        check_read_back(tmp_path / "run", RunSize.of(scenario), [r.edge_rounds for r in done])
        apart = [t.outcome.distances for r in done for t in r.edge_rounds if t.outcome.distances]
        dropped = [r.last.gossip.links.sum() < edges * (edges - 1) for r in done]
        assert any(dropped)
        assert any(np.isnan(each.true).any() for each in apart)
        summary = coordinate(
            fleet.settings(policy), tmp_path / "run", "", done.append, notes.append
        )
    assert notes == [f"going on after global round {ROUNDS - 1}"]
    assert summary["global_rounds"] == ROUNDS
    again = done[ROUNDS - 1 :]
    assert [each.ends_at_s for each in again[: ROUNDS - 1]] == [
        each.ends_at_s for each in done[: ROUNDS - 1]
    ]


def test_a_run_goes_on_with_servers_that_were_away(tmp_path, monkeypatch):
    """One is silent from the second round on: no links to it, nothing known of its model."""
    monkeypatch.setattr("fedrt.devices.coordinator.fleet.ANSWER_S", 1.0)
    monkeypatch.setattr("fedrt.devices.edge.links.ANSWER_S", 0.3)
    scenario, done, notes = scenario_of(3, 2), [], []

    def stop(last):
        done.append(last)
        if len(done) == 1:
            fleet.stop("edge-2")
        if len(done) == 3:
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(KeyboardInterrupt):
            fleet.coordinate("fedrt", progress=stop)
        check_read_back(tmp_path / "run", RunSize.of(scenario), [r.edge_rounds for r in done])
        # All were waited for at the start; whoever is away in its second life is not.
        fleet.start_edge(2)
        coordinate(fleet.settings("fedrt"), tmp_path / "run", "", done.append, notes.append)
    assert notes[0] == "going on after global round 3"
    assert done[2].last.outcome.delivered.sum() < done[0].last.outcome.delivered.sum()
    assert done[-1].last.outcome.delivered.all()


def digest_of(folder):
    """All files of a folder with their contents, but for the lock."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def all_checkpoints(run):
    for path in (run / "checkpoints").iterdir():
        truncate(path)


def no_checkpoints(run):
    shutil.rmtree(run / "checkpoints")


def first_record(run):
    truncate(run / "records" / "000000.npz")


def no_records(run):
    shutil.rmtree(run / "records")


def back_to_the_start(run):
    (run / "checkpoints" / "000002.npz").rename(run / "checkpoints" / "000000.npz")
    truncate(run / "checkpoints" / "000003.npz")


DAMAGES = (all_checkpoints, no_checkpoints, first_record, no_records, back_to_the_start)


def test_a_run_that_has_begun_is_never_started_over(tmp_path):
    """Whatever of it cannot be read: exit code 2, one line more, and nothing is written."""
    scenario = scenario_of(3, 1)

    def stop(last):
        if last.last.t == 2:
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(KeyboardInterrupt):
            fleet.coordinate("fedrt", progress=stop)
        for damage in DAMAGES:
            run = tmp_path / damage.__name__
            shutil.copytree(tmp_path / "run", run)
            damage(run)
            before, notes = digest_of(run), []
            with pytest.raises(InputError) as caught:
                coordinate(fleet.settings("fedrt"), run, "", None, notes.append)
            assert caught.value.exit_code == 2
            assert "is not started over; give another `out`" in caught.value.lines[-1]
            assert all("cannot be read" in line for line in caught.value.lines[:-1])
            assert notes == []
            assert digest_of(run) == before, damage.__name__
        # The newest alone may be damaged.
        run = tmp_path / "run"
        truncate(run / "checkpoints" / "000003.npz")
        notes = []
        coordinate(fleet.settings("fedrt"), run, "", None, notes.append)
    assert notes[0].endswith("going back to an earlier state")
    assert notes[1] == "going on after global round 2"


def test_the_first_checkpoint_is_there_before_the_first_record(tmp_path):
    """So a run that was killed in its first round is one that has begun, and goes on."""
    scenario, seen = scenario_of(3, 1), []

    class Killed(Callback):
        def round_begins(self, run, t):
            seen.append((t, sorted(p.name for p in (run.folder / "checkpoints").iterdir())))
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                coordinate(fleet.settings(), tmp_path / "run", "", None, print, [Killed()])
        summary = fleet.coordinate()
    assert seen == [(0, ["000000.npz"])] * 2
    assert summary["global_rounds"] == ROUNDS
