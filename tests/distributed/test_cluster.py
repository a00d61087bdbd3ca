"""Joining a cluster: what is no cluster is one clear line, quickly; and whole runs on one's own."""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from kill_campaign import differences
from support.children import LIMIT_S, environment
from support.paths import ROOT
from support.tiny import as_options
from support.trained import start, train, trained

from fedrt.cli import main
from fedrt.errors import FedrtError, InputError

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs the ray extra"
)
RUN = ["run", *as_options("rounds.global_rounds=1"), "--engine", "ray"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str], out: Path) -> str:
    """The one line of a command that must not start."""
    assert main([*words, "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert not out.exists()
    return captured.err.rstrip("\n")


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refused(RUN, capsys, tmp_path / "run")
    assert line == ("--engine ray: needs ray, which is not installed: pip install 'fedrt[ray]'")
    words = ["compare", *RUN[1:], "--policies", "fedrt"]
    assert refused(words, capsys, tmp_path / "all") == line


@needs_ray
def test_no_cluster_at_the_address_is_one_line(capsys, tmp_path):
    """A free port, a name that nobody has, and a server that is not Ray's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        words = [*RUN, "--address", f"127.0.0.1:{port}"]
        line = refused(words, capsys, tmp_path / "run")
        assert line.startswith(f'--address "127.0.0.1:{port}": no Ray cluster answers there: ')
    line = refused([*RUN, "--address", "no.such.host.invalid"], capsys, tmp_path / "run")
    assert line.startswith('--address "no.such.host.invalid": no Ray cluster answers there: ')
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        line = refused([*RUN, "--address", f"127.0.0.1:{port}"], capsys, tmp_path / "run")
        thread.join()
        assert line == f'--address "127.0.0.1:{port}": no Ray cluster answers there'


@needs_ray
@pytest.mark.parametrize("text", ["host:", ":6379", "host:port", "host:0", "host:65536", "h:-1"])
def test_an_address_that_is_none_is_one_line(text, capsys, tmp_path):
    line = refused([*RUN, "--address", text], capsys, tmp_path / "run")
    assert "must be HOST, HOST:PORT or local" in line


def test_an_address_is_for_the_ray_engine_alone(capsys, tmp_path):
    words = ["run", *as_options(), "--address", "local"]
    assert refused(words, capsys, tmp_path / "run") == "--address: is for --engine ray"
    run = start(tmp_path / "other", trained())
    assert main(["run", "--allow-code", "--resume", str(run), "--address", "local"]) == 2
    line = capsys.readouterr().err
    assert line == f"--address: {run} trains with --engine sequential, not ray\n"


@needs_ray
def test_a_device_that_workers_cannot_have(capsys, tmp_path):
    line = refused([*RUN, "--device", "tpu"], capsys, tmp_path / "run")
    assert line == 'device = "tpu": must be auto, cpu or cuda for the ray engine'


@needs_ray
@pytest.mark.slow
def test_a_run_on_a_cluster_of_its_own_is_that_of_stacked(tmp_path):
    """A whole run in a process of its own: the same bytes in all tables.

    Two devices at a time in every edge here as there, so `stacked` has the same bits.
    """
    scenario = trained("fleet.cluster_sizes=[2,2,2]", "fleet.num_devices=6")
    whole = train(tmp_path / "whole", scenario, engine="stacked", chunk=2, workers=1)
    path = start(tmp_path / "ray", scenario, engine="ray", chunk=2, workers=2)
    words = [sys.executable, "-m", "fedrt", "run", "--json", "--allow-code", "--resume", str(path)]
    done = subprocess.run(
        [*words, "--address", "local"],
        env=environment(ROOT / "src"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((path / "summary.json").read_text())
    assert differences(whole, path) == []


OBJECTS = """
import sys
import numpy as np
import torch
import fedrt

class Net(torch.nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.head = torch.nn.Linear(4, classes)

    def forward(self, x):
        return self.head(x)

rng = np.random.default_rng(0)
x = rng.normal(size=(120, 4)).astype("float32")
data = (x[:100], (x[:100].sum(1) > 0).astype(int), x[100:], (x[100:].sum(1) > 0).astype(int))
few = {"rounds.edge_rounds": 1, "rounds.local_steps": 2, "fleet.num_devices": 16}
for engine in ("stacked", "ray"):
    run = fedrt.run(
        settings=few, model=Net, data=data, rounds=2, engine=engine, chunk=2, device="cpu",
        workers=1 if engine == "stacked" else 2, progress=False,
    )
    print(run.rounds["loss"].tolist())
"""


@needs_ray
@pytest.mark.slow
def test_objects_of_a_script_reach_the_workers_of_a_cluster(tmp_path):
    """They are in no module that a worker could import; the script is not run again there."""
    (tmp_path / "script.py").write_text(OBJECTS)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment(ROOT / "src"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here, there = (json.loads(line) for line in done.stdout.splitlines())
    np.testing.assert_allclose(here, there, rtol=1e-5)  # sums in the order of the workers


@needs_ray
def test_addresses():
    from fedrt.distributed.cluster import read_address

    assert read_address("10.0.0.1") == ("10.0.0.1", 6379)
    assert read_address("head.example:7000") == ("head.example", 7000)
    with pytest.raises(InputError):
        read_address("head:")


LISTENING = r"""
import os, re, subprocess
from pathlib import Path
import ray
from fedrt.distributed.cluster import connect

def mine(pid):
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()

cluster = connect(None, 1)
try:
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    rows = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    for row in rows.splitlines():
        if any(mine(int(pid)) for pid in re.findall(r"pid=(\d+)", row)):
            print(row.split()[3].rpartition(":")[0], re.search(r'"(.*?)"', row)[1])
finally:
    cluster.end()
"""


@needs_ray
@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss, of the package iproute2")
def test_a_cluster_of_ones_own_listens_on_loopback_alone():
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert {"raylet", "gcs_server"} <= {name for _, name in rows}
    assert {where for where, _ in rows} <= {"127.0.0.1", "[::ffff:127.0.0.1]", "[::1]"}


@needs_ray
def test_a_cluster_that_others_could_reach_is_ended(monkeypatch):
    from fedrt.distributed import cluster

    ended = []
    monkeypatch.setattr(cluster.ray, "nodes", lambda: [{"NodeManagerAddress": "10.0.0.7"}])
    monkeypatch.setattr(cluster.ray, "shutdown", lambda: ended.append(True))
    monkeypatch.setattr(cluster.ray, "init", lambda **options: None)
    with pytest.raises(FedrtError, match=r"listens on 10\.0\.0\.7, not on 127\.0\.0\.1 alone"):
        cluster.connect(None, 1)
    assert ended == [True]
