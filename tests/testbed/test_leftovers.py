"""What killed testbeds leave is removed, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from fedrt.testbed.leftovers import (
    Standing,
    clean,
    process_began,
    remove_dead_groups,
    standing,
)


class Machine:
    """Namespaces that can be listed and removed."""

    def __init__(self, *names):
        self.names = set(names)

    def __call__(self, words, _lines):
        if words[:3] == ["ip", "netns", "list"]:
            return "\n".join(f"{name} (id: 3)" for name in sorted(self.names))
        if words[:3] == ["ip", "netns", "del"]:
            self.names.remove(words[3])
        return ""


def test_what_a_killed_testbed_left_is_removed_and_others_stay(tmp_path):
    mine = ["fedrt-aaaaaa-net", "fedrt-aaaaaa-edge-0"]
    machine = Machine(*mine, "fedrt-bbbbbb-net", "fedrt-cccccc-net", "vpn")
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    pid = int(ended.stdout)
    Standing("aaaaaa", pid, "123", mine).write(tmp_path)
    Standing("bbbbbb", os.getpid(), process_began(os.getpid()), ["fedrt-bbbbbb-net"]).write(
        tmp_path
    )
    Standing("cccccc", pid, "123", ["fedrt-cccccc-net"], kept=True).write(tmp_path)
    assert [each.tag for each in clean(folder=tmp_path, run=machine, groups=tmp_path)] == ["aaaaaa"]
    assert machine.names == {"fedrt-bbbbbb-net", "fedrt-cccccc-net", "vpn"}
    assert [
        each.tag for each in clean(kept=True, folder=tmp_path, run=machine, groups=tmp_path)
    ] == ["cccccc"]
    assert machine.names == {"fedrt-bbbbbb-net", "vpn"}
    assert [path.stem for path in tmp_path.iterdir()] == ["bbbbbb"]


def test_a_process_with_the_same_number_is_another_one(tmp_path):
    Standing("aaaaaa", os.getpid(), "1", ["fedrt-aaaaaa-net"]).write(tmp_path)
    assert not standing(tmp_path)[0].is_alive


def test_files_that_name_anything_else_are_left_alone(tmp_path):
    for place, wrong in enumerate(
        (
            {"namespaces": ["vpn"]},
            {"namespaces": "fedrt-aaaaaa-net"},
            {"tag": "../../etc"},
            {"pid": "1"},
            {"states": [3]},
            {"more": 1},
        )
    ):
        whole = {"tag": "aaaaaa", "pid": 1, "began": "1", "namespaces": [], "states": []}
        (tmp_path / f"{place}.json").write_text(json.dumps(whole | wrong))
    (tmp_path / "x.json").write_text("[")
    (tmp_path / "y.json").write_text("[]")
    assert clean(kept=True, folder=tmp_path, run=Machine("vpn"), groups=tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 8


def test_groups_of_processes_that_are_gone_are_removed(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    dead, alive = int(ended.stdout), os.getpid()
    gone = [f"fedrt-device-3-{dead}", f"fedrt-testbed-{dead}"]
    stay = [f"fedrt-device-3-{alive}", f"fedrt-other-{dead}", f"user-{dead}", f"device-3-{dead}"]
    for name in gone + stay:
        (tmp_path / "cpu" / "mine" / name).mkdir(parents=True)
    remove_dead_groups(tmp_path)
    assert sorted(path.name for path in (tmp_path / "cpu" / "mine").iterdir()) == sorted(stay)
