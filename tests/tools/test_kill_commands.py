"""A short form of the campaign that kills commands: nothing is left, nothing differs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from kill_commands import campaign, contents, differences


@pytest.mark.slow
@pytest.mark.parametrize("name", ["front", "import"])
def test_a_killed_command_ends_as_if_left_alone(name, tmp_path):
    said: list[str] = []
    assert campaign([name], 1, 3, tmp_path, said.append), "\n".join(said)
    assert said[0].endswith(": all as if left alone")


def test_what_is_left_over_or_differs_is_found(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text('{"wall_s": 1, "total_time_s": 2}')
    (tmp_path / "two" / "summary.json").write_text('{"wall_s": 7, "total_time_s": 2}')
    assert differences(contents(tmp_path / "one"), contents(tmp_path / "two")) == []
    (tmp_path / "two" / "summary.json").write_text('{"wall_s": 1, "total_time_s": 3}')
    (tmp_path / "two" / ".a-0.torn").touch()
    found = differences(contents(tmp_path / "one"), contents(tmp_path / "two"))
    assert found == ["left over: .a-0.torn", "summary.json differs"]


def test_a_record_is_compared_without_real_time_and_the_command(tmp_path):
    def write(folder, command, wall_s, loss):
        (tmp_path / folder).mkdir(exist_ok=True)
        np.savez(
            tmp_path / folder / "record.npz",
            names=json.dumps(["loss", "wall_s"]),
            values=np.array([loss, wall_s]),
            about=json.dumps({"command": command, "seed": 0}),
        )
        return contents(tmp_path / folder)

    one = write("one", "fedrt --out one", 1.0, 2.5)
    assert differences(one, write("two", "fedrt --out two", 3.0, 2.5)) == []
    assert differences(one, write("two", "fedrt --out two", 3.0, 2.25)) == ["record.npz differs"]
