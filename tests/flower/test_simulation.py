"""The example in Flower's own simulation: an app that knows nothing of FedRT gets its orders."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.children import LIMIT_S, environment
from support.paths import ROOT

import fedrt

flwr = pytest.importorskip("flwr", reason="Flower is not installed: make test-flower")

TOOLS = Path(flwr.__file__).parents[1] / "bin"
"""Flower's commands, where `pip install --target` puts them."""
CONFIG = """
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""
POLICY = "fedrt"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def superlink(port: int, variables: dict[str, str]) -> Iterator[None]:
    """Flower's server process, which starts simulations; it and they are ended at the end."""
    command = [TOOLS / "flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--disable-runtime-dependency-installation"]
    server = subprocess.Popen(
        command,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    ready = threading.Event()

    def read() -> None:
        for line in server.stdout:
            if "Uvicorn running" in line:
                ready.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert ready.wait(LIMIT_S), "the server process did not come up"
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        reader.join(LIMIT_S)
        server.stdout.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The output of a run of two rounds, and the folder with its plans."""
    home, port = tmp_path_factory.mktemp("flower"), free_port()
    (home / "config.toml").write_text(CONFIG.format(port=port))
    paths = os.pathsep.join([str(TOOLS), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = environment(
        FLWR_HOME=str(home), FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", PATH=paths
    )
    changed = f"num-server-rounds=2 fedrt-policy='{POLICY}' fedrt-out='{home / 'plans'}'"
    command = [TOOLS / "flwr", "run", ROOT / "examples" / "flower", "here", "--stream"]
    command += ["--run-config", changed]
    command += ["--federation-config", "num-supernodes=6 client-resources-num-cpus=1"]
    with superlink(port, variables):
        done = subprocess.run(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
    return done.stdout, home / "plans"


def test_the_app_trains_as_it_is(run):
    output, _ = run
    assert output.count("aggregate_train: Received 6 results and 0 failures") == 2, output
    assert "eval_acc" in output


def test_every_client_got_the_orders_of_fedrt_plan(run):
    _, plans = run
    assert sorted(path.name for path in plans.iterdir()) == ["round-0001", "round-0002"]
    for folder in plans.iterdir():
        plan, replies = (
            json.loads((folder / f"{name}.json").read_text()) for name in ("plan", "replies")
        )
        assert plan == fedrt.plan_round(fedrt.load_state(folder / "state.json"), POLICY)
        devices = [device for edge in plan["edges"] for device in edge["devices"]]
        assert len(replies) == len(devices) == 6
        for n, device in enumerate(devices):
            said = replies[str(n)]
            assert said["ordered-device"] == n
            assert said["ordered-bandwidth-hz"] == device["bandwidth_hz"]
            assert said["ordered-cpu-hz"] == device["cpu_hz"]
            assert said["wall-s"] > 0
