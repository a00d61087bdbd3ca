"""A party that fails does not end the others: full disks, lost states, folders from backups."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from contextlib import suppress

import numpy as np
import pytest
from support.parties import spread
from support.replayed import require
from support.running import running

from fedrt.devices.common import room
from fedrt.devices.edge import drafts
from fedrt.errors import FedrtError
from fedrt.records.checkpoint import Checkpoints
from fedrt.system import files

LENGTH = "rounds={global_rounds=%d,edge_rounds=2,local_steps=2,gossip_steps=2}"


def three(rounds=5, *settings):
    """Three edge servers with two devices each."""
    return spread(3, 6, LENGTH % rounds, *settings)


class FullDisk:
    """Folders to which nothing can be written, as long as they are named here."""

    def __init__(self, monkeypatch) -> None:
        self.names: set[str] = set()
        for module, name in ((files, "torn_file"), (drafts.os, "open")):
            self._spoil(monkeypatch, module, name)
        monkeypatch.setattr(files.os, "posix_fallocate", self._allocate(os.posix_fallocate))
        self._spoil_alone(monkeypatch)

    def refuse(self, path) -> None:
        """Raise an error about a path on the full disk."""
        if any(f"/{name}/" in str(path) for name in self.names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _spoil(self, monkeypatch, module, name) -> None:
        whole = getattr(module, name)

        def spoiled(path, *more, **named):
            if name != "open" or more[0] & os.O_CREAT:
                self.refuse(path)
            return whole(path, *more, **named)

        monkeypatch.setattr(module, name, spoiled)

    def _allocate(self, whole):
        def allocate(handle, *more):
            self.refuse(os.readlink(f"/proc/self/fd/{handle}"))
            return whole(handle, *more)

        return allocate

    def _spoil_alone(self, monkeypatch) -> None:
        whole = files.write_alone

        def write(path, *more, **named):
            try:
                self.refuse(path)
            except OSError as error:
                raise files.UnwritableError(f"{path}: cannot be written: {error}") from error
            whole(path, *more, **named)

        monkeypatch.setattr("fedrt.devices.edge.states.write_alone", write)


@pytest.fixture
def full(monkeypatch):
    """A disk that is full for some parties."""
    return FullDisk(monkeypatch)


def delivered(done, scenario):
    """For each global round, the devices whose update counted in its last edge round."""
    return [set(r.last.outcome.device[r.last.outcome.delivered].tolist()) for r in done]


def test_a_full_disk_is_a_silent_server_until_it_has_room_again(tmp_path, full, caplog):
    scenario, done = three(6), []

    def change(last):
        done.append(last)
        if len(done) == 2:
            full.names.add("edge-1")
        if len(done) == 4:
            full.names.clear()

    with running(tmp_path, scenario) as fleet, caplog.at_level(logging.INFO):
        fleet.start_all()
        summary = fleet.coordinate("fedrt", progress=change)
    assert summary["global_rounds"] == 6
    counted = delivered(done, scenario)
    assert counted[1] == counted[4] == counted[5] == set(range(6))
    assert counted[2] == counted[3] == {0, 1, 4, 5}
    lines = [record.getMessage() for record in caplog.records]
    silent = [line for line in lines if "silent until it can be written" in line]
    assert len(silent) == 1
    assert "No space left on device" in silent[0]
    assert sum("can be written again" in line for line in lines) == 1
    # Its devices were not planned for, and so not ordered to train in vain.
    assert done[3].last.plan.trained.sum() == len(done[3].last.seen.device) == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_disk_that_is_really_full(tmp_path, caplog):
    """The same on a file system of a few pages; its own traces go with it."""
    scenario, done = three(6), []
    place = tmp_path / "state" / "edge-1"
    place.mkdir(parents=True)
    if os.system(f"mount -t tmpfs -o size=1m tmpfs {place} 2>/dev/null"):
        pytest.skip("no file system can be mounted here")
    try:

        def change(last):
            done.append(last)
            if len(done) == 2:
                fill(place / "ballast")
            if len(done) == 4:
                (place / "ballast").unlink()

        with running(tmp_path, scenario) as fleet, caplog.at_level(logging.INFO):
            fleet.start_all()
            summary = fleet.coordinate("fedrt", progress=change)
    finally:
        os.system(f"umount -l {place}")
    assert summary["global_rounds"] == 6
    counted = delivered(done, scenario)
    assert counted[3] == {0, 1, 4, 5}
    assert counted[5] == set(range(6))
    lines = [record.getMessage() for record in caplog.records]
    assert sum("silent until it can be written" in line for line in lines) == 1


def fill(path):
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_at_a_device_is_a_silent_device(tmp_path, full, caplog):
    scenario, done = three(6, "learning.upload=int4"), []

    def change(last):
        done.append(last)
        if len(done) == 2:
            full.names.add("device-3")
        if len(done) == 4:
            full.names.clear()
            # It looks again at longer and longer times: here nobody waits for that.
            fleet.cut("device-3")
            fleet.start_device(3)

    with running(tmp_path, scenario) as fleet, caplog.at_level(logging.INFO):
        fleet.start_all()
        fleet.coordinate("fedrt", progress=change)
    counted = delivered(done, scenario)
    assert counted[1] == set(range(6))
    assert counted[3] == {0, 1, 2, 4, 5}
    assert counted[5] == set(range(6))
    lines = [record.getMessage() for record in caplog.records]
    assert sum("silent until it can be written" in line for line in lines) == 1


def test_a_full_disk_at_the_coordinator_ends_it_with_1_and_the_run_goes_on(tmp_path, full):
    scenario, done = three(4), []

    def change(last):
        done.append(last)
        if len(done) == 2:
            full.names.add("run")

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(FedrtError, match="No space left on device") as caught:
            fleet.coordinate("fedrt", progress=change)
        assert caught.value.exit_code == 1
        full.names.clear()
        summary = fleet.coordinate("fedrt")
    assert summary["global_rounds"] == 4


CODED = ("learning.upload=int4", "learning.gossip=int8")


def models_of(folder, label, edges=3):
    """The edge models in a state."""
    found = []
    for c in range(edges):
        (path,) = (folder / "state" / f"edge-{c}").glob(f"*/{label}")
        with np.load(path) as state:
            found.append(state["models"][0])
    return np.stack(found)


@pytest.mark.parametrize("given", [(), CODED], ids=["as they are", "coded"])
def test_a_server_that_lost_its_folder_gets_its_model_back(tmp_path, given, caplog):
    """What it and its neighbours knew of each other begins anew on both sides."""
    scenario, done, told = three(5, *given), [], []

    def lose(last):
        done.append(last)
        if len(done) == 2:
            fleet.stop("edge-1")
            shutil.rmtree(tmp_path / "state" / "edge-1")
            fleet.start_edge(1)

    with running(tmp_path, scenario) as fleet, caplog.at_level(logging.WARNING):
        fleet.start_all()
        coordinate_told(fleet, lose, told, least_devices=6)
    assert len(done) == 5
    assert "edge-1 has lost its state: it goes on from its model of global round 2" in told
    assert all(turn.outcome.delivered.all() for each in done for turn in each.edge_rounds)
    # From the same model as before: the others' and its own are as close as ever.
    assert done[-1].metrics["consensus"] < 2 * max(each.metrics["consensus"] for each in done[:2])
    if given:
        check_copies(tmp_path)


def coordinate_told(fleet, progress, told, policy="fedrt", out="run", **more):
    """Carry out the run, with what the coordinator tells its user."""
    from fedrt.devices.coordinator.run import coordinate

    settings = fleet.settings(policy, **more)
    return coordinate(settings, fleet.folder / out, "", progress, told.append)


def check_copies(folder, edges=3):
    """Whatever a server takes another's copy to be is what that one takes it to be."""
    held = {}
    for c in range(edges):
        path = max((folder / "state" / f"edge-{c}").glob("*/*-mix-*.npz"))
        with np.load(path) as state:
            pairs = map(tuple, state["pairs"].tolist())
            held[c] = dict(zip(pairs, state["copies"], strict=True))
    for c in range(edges):
        for (i, j), copy in held[c].items():
            other = held[j if i == c else i]
            require((i, j) in other, f"{i} to {j} is known on one side alone")
            np.testing.assert_array_equal(copy, other[i, j])


def test_a_server_from_an_older_backup_gets_its_model_back(tmp_path):
    scenario, done, told = three(6, *CODED), [], []

    def restore(last):
        done.append(last)
        if len(done) == 1:
            shutil.copytree(tmp_path / "state" / "edge-2", tmp_path / "backup")
        if len(done) == 4:
            fleet.stop("edge-2")
            shutil.rmtree(tmp_path / "state" / "edge-2")
            shutil.copytree(tmp_path / "backup", tmp_path / "state" / "edge-2")
            fleet.start_edge(2)

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        coordinate_told(fleet, restore, told, least_devices=6)
    assert "edge-2 has lost its state: it goes on from its model of global round 4" in told
    assert all(turn.outcome.delivered.all() for each in done for turn in each.edge_rounds)
    check_copies(tmp_path)


def test_a_server_with_a_damaged_state_gets_its_model_back(tmp_path):
    scenario, told = three(3), []

    def damage(last):
        if last.last.t == 0:
            fleet.stop("edge-0")
            for path in (tmp_path / "state" / "edge-0").glob("*/*.npz"):
                path.write_bytes(path.read_bytes()[:-50])
            fleet.start_edge(0)

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        summary = coordinate_told(fleet, damage, told, least_devices=6)
    assert summary["global_rounds"] == 3
    assert any(line.startswith("edge-0 has lost its state") for line in told)


BACK = 5
"""So many rounds older is the backup; servers keep the states of two."""


@pytest.mark.parametrize("given", [(), CODED], ids=["as they are", "coded"])
def test_a_coordinators_folder_from_an_old_backup_goes_on(tmp_path, given):
    scenario, done, told = three(BACK + 4, *given), [], []

    def stop(last):
        done.append(last)
        if last.last.t == 1:
            shutil.copytree(tmp_path / "run", tmp_path / "backup")
        if last.last.t == BACK + 1:
            raise KeyboardInterrupt

    with running(tmp_path, scenario) as fleet:
        fleet.start_all()
        with pytest.raises(KeyboardInterrupt):
            coordinate_told(fleet, stop, told)
        models = Checkpoints(tmp_path / "backup").newest_models()
        if not given:
            (tmp_path / "backup" / "devices.json").unlink()  # the run gets another name
        again = []
        summary = coordinate_told(fleet, again.append, told, out="backup")
    # The backup was made before the checkpoint of its last round was there, or after it.
    (line,) = [line for line in told if line.startswith("going on after global round")]
    first = int(line.split()[-1])
    lost = [line for line in told if "has lost its state" in line]
    assert sorted(lost) == [
        f"edge-{c} has lost its state: it goes on from its model of global round {first}"
        for c in range(3)
    ]
    # The rounds before are those of the backup, the others are carried out once more.
    assert [each.last.t for each in again] == list(range(BACK + 4))
    assert [each.ends_at_s for each in again[:first]] == [each.ends_at_s for each in done[:first]]
    assert all(turn.outcome.delivered.all() for each in again for turn in each.edge_rounds)
    assert summary["global_rounds"] == BACK + 4
    assert models.shape[0] == 3
    if given:
        check_copies(tmp_path)


def test_what_a_codec_left_over_begins_anew_with_its_server_and_with_its_device(tmp_path, caplog):
    """The server names no memory after it lost its own; a device that lost its has none to use."""
    scenario, orders = three(4, "learning.upload=int4"), []

    def lose(last):
        orders.append({n: remembered(tmp_path, n) for n in range(6)})
        if last.last.t == 1:
            fleet.stop("edge-1")
            shutil.rmtree(tmp_path / "state" / "edge-1")
            fleet.start_edge(1)
            fleet.stop("device-0")
            shutil.rmtree(tmp_path / "state" / "device-0")
            fleet.start_device(0)

    with running(tmp_path, scenario) as fleet, caplog.at_level(logging.WARNING):
        fleet.start_all()
        coordinate_told(fleet, lose, [], least_devices=6)
    lines = [record.getMessage() for record in caplog.records]
    # Device 0 belongs to edge-0, which still names what it remembered.
    assert sum("has forgotten what it had yet to send" in line for line in lines) == 1
    assert all(orders[-1].values())


def remembered(folder, number):
    """The names of what a device has on its disk."""
    return [path.name for path in (folder / "state" / f"device-{number}").glob("*/*.npz")]


def test_room_is_looked_for_where_there_was_none(tmp_path, full):
    place = room.Room()
    assert place.there
    full.names.add("disk")
    folder = tmp_path / "disk" / "run"
    error = files.UnwritableError("full")
    place.note(error, folder, 10)
    assert not place.there
    full.names.clear()
    assert place.there
    assert place.lacking is None
    assert not list(folder.iterdir())  # made, and nothing left in it
