"""The walk through two boards in docs/deploy.md, every command of it, in two network namespaces."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from support.machine import alone
from support.paths import ROOT

from fedrt.testbed.machine import machine_problems

SECTION = re.compile(r"^## Two boards.*?(?=^## )", re.S | re.M)
BLOCK = re.compile(r"<!-- not run: several machines; (.*?) -->\n```bash\n(.*?)```", re.S)
SCENARIO = re.compile(r"```toml\n# scenario.toml\n(.*?)```", re.S)
BOARDS = {"board-a": "192.168.7.10", "board-b": "192.168.7.11"}
PATIENCE_S = 300


@pytest.fixture
def boards(tmp_path):
    """Two namespaces with a link between them; in `fedrt-boards-NAME`."""
    with alone():
        yield from made_boards(tmp_path)


def made_boards(tmp_path):
    if problems := machine_problems():
        pytest.skip("; ".join(problems))
    names = {board: f"fedrt-boards-{board}" for board in BOARDS}
    try:
        for board, name in names.items():
            ip("netns", "add", name)
            (tmp_path / board).mkdir()
        (tmp_path / "laptop").mkdir()
        one, other = names.values()
        ip("-n", one, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", other)
        for board, name in names.items():
            ip("-n", name, "addr", "add", f"{BOARDS[board]}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def command(line, place, names):
    """A line of the page as it runs here."""
    words = shlex.split(line)
    assert words[0] == "fedrt", line
    whole = [sys.executable, "-P", "-m", "fedrt", *words[1:]]
    return whole if place == "laptop" else ["nsenter", f"--net=/run/netns/{names[place]}", *whole]


def copy(line, tmp_path):
    """`scp`, between folders."""
    *sources, target = shlex.split(line)[2:]
    for source in sources:
        found = tmp_path / "laptop" / source
        to = tmp_path / target.rstrip(":") / found.name
        shutil.copytree(found, to) if found.is_dir() else shutil.copy2(found, to)


@pytest.mark.long
def test_every_command_of_the_walk_through_two_boards(tmp_path, boards):
    page = (ROOT / "docs" / "deploy.md").read_text()
    scenario = SCENARIO.search(page)[1].replace("num_edges = 2", "num_edges = 1")
    scenario = scenario.replace("num_devices = 4", "num_devices = 2").replace("= 10", "= 2")
    (tmp_path / "laptop" / "scenario.toml").write_text(scenario)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    staying, done = [], 0
    try:
        for mark, text in BLOCK.findall(SECTION.search(page)[0]):
            place, _, stays = mark.partition(", ")
            for line in text.splitlines():
                done += 1
                if line.startswith("scp "):
                    copy(line, tmp_path)
                    continue
                whole, folder = command(line, place, boards), tmp_path / place
                if stays:
                    log = (folder / f"{len(staying)}.log").open("w")
                    process = subprocess.Popen(whole, cwd=folder, env=env, stdout=log, stderr=log)
                    staying.append((process, log))
                    continue
                found = subprocess.run(
                    whole, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S
                )
                assert found.returncode == 0, f"{line}\n{found.stderr}"
                assert all(process.poll() is None for process, _ in staying)
    finally:
        for process, log in staying:
            process.terminate()
            process.wait(60)
            log.close()
    assert done == 15
    assert "[[fleet.classes]]" in (tmp_path / "board-b" / "device-1-class.toml").read_text()
    assert (tmp_path / "board-a" / "run" / "page.html").is_file()
    logs = "".join(path.read_text() for path in tmp_path.glob("board-*/*.log"))
    assert "cannot be used" not in logs
    assert "rates are not enforced" not in logs
