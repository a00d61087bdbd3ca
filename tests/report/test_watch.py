"""`fedrt watch` follows a run that trains, is killed and goes on, and gives away nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tiny import tiny
from trained import TRAINING

from fedrt.cli import main
from fedrt.report.page.serve import Server
from fedrt.runs.estimate import estimate

TESTS = Path(__file__).parents[1]
ROUNDS = 60


@pytest.fixture
def serve():
    """Starts servers of folders, each with its address."""
    running: list[tuple[Server, threading.Thread]] = []

    def start(*paths: Path) -> Server:
        server = Server(paths, "127.0.0.1", 0)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def estimated(tmp_path):
    out = tmp_path / "out"
    estimate(tiny("rounds.global_rounds=2"), ["fedrt"], [0], out)
    (out / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    return out


def get(server: Server, path: str, **headers: str):
    request = urllib.request.Request(server.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, dict(answer.headers), answer.read()


def status(server: Server, path: str, **headers: str) -> int:
    try:
        return get(server, path, **headers)[0]
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_data_come_with_a_tag_and_again_only_when_they_change(estimated, serve):
    server = serve(estimated)
    code, headers, text = get(server, "data.json")
    data = json.loads(text)
    assert (code, data["progress"]["done"], len(data["runs"])) == (200, 2, 1)
    tag = headers["ETag"]
    assert status(server, "data.json", **{"If-None-Match": tag}) == 304
    (estimated / "fedrt-0" / "summary.json").unlink()
    until = time.monotonic() + 60
    while status(server, "data.json", **{"If-None-Match": tag}) == 304:
        assert time.monotonic() < until
        time.sleep(0.05)
    data = json.loads(get(server, "data.json")[2])
    assert data["progress"]["ended"] == 0


def test_a_folder_that_vanishes_and_comes_back(estimated, serve, tmp_path):
    server = serve(estimated)
    server.watched._looked_at = -10
    assert "lines" in json.loads(get(server, "data.json")[2])
    shutil.move(estimated, tmp_path / "away")
    server.watched._looked_at = -10
    assert json.loads(get(server, "data.json")[2]) == {
        "problems": [f"{estimated}: is not there; give a run directory or a folder of runs"]
    }
    shutil.move(tmp_path / "away", estimated)
    server.watched._looked_at = -10
    assert "lines" in json.loads(get(server, "data.json")[2])


def test_it_gives_the_page_its_data_and_figures_and_nothing_else(estimated, serve):
    server = serve(estimated)
    _, headers, page = get(server, "")
    assert b'data-watch="data.json"' in page
    assert b"connect-src 'self'" in page
    assert headers["X-Content-Type-Options"] == "nosniff"
    (figure,) = json.loads(get(server, "data.json")[2])["figures"]
    _, headers, svg = get(server, figure["address"])
    assert svg.startswith(b"<svg")
    assert "sandbox" in headers["Content-Security-Policy"]
    for path in ("config.toml", "fedrt-0/run.json", "../../etc/passwd", "figure/1/x", "%2e%2e/x"):
        assert status(server, path) == 404
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert status(server, "data.json", Host=name) == 421
    assert status(server, "", Host="localhost:1234") == 200
    for method in ("POST", "PUT", "DELETE"):
        connection = HTTPConnection(*server.server_address, timeout=20)
        connection.request(method, "/data.json")
        assert connection.getresponse().status == 501
        connection.close()


def test_bad_ports_hosts_and_folders_are_one_line(estimated, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = str(taken.getsockname()[1])
        for words, said in (
            ([str(estimated), "--port", used], "cannot be used: Address already in use"),
            ([str(estimated), "--port", "x"], '--port = "x": must be a whole number'),
            ([str(estimated), "--port", "65536"], "--port = 65536: must be a whole number"),
            ([str(estimated), "--port", "-1"], "--port"),
            ([str(estimated), "--port", "0", "--host", "203.0.113.9"], "cannot be used"),
            ([str(estimated), "--port", "0", "--host", "a..b"], "cannot be used"),
            ([str(estimated), "--port", "0", "--host", "x" * 300], "cannot be used"),
            ([str(estimated / "none"), "--port", "0"], "is not there"),
            ([str(estimated / "fedrt-0" / "run.json"), "--port", "0"], "is not a folder"),
        ):
            assert main(["watch", *words]) == 2
            err = capsys.readouterr().err
            assert err.count("\n") == 1
            assert said in err


def start_run(out: Path) -> subprocess.Popen:
    settings = (*TRAINING, f"rounds.global_rounds={ROUNDS}", 'learning.model="trained:Leisurely"')
    options = [word for text in settings for word in ("--set", text)]
    options += ["--engine", "sequential", "--device", "cpu", "--out", str(out)]
    # Slow enough to be watched: 28 batches a round.
    return run_fedrt("run", "quickstart", *options, pause_s=0.01)


def run_fedrt(*words: str, pause_s: float = 0.0) -> subprocess.Popen:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)]),
        "FEDRT_TEST_PAUSE_S": str(pause_s),
    }
    command = [sys.executable, "-m", "fedrt", *words]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_watching_a_run_that_trains_is_killed_and_goes_on(tmp_path, serve, view):
    out = tmp_path / "run"
    run = start_run(out)
    try:
        while not (out / "run.json").exists():
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.05)
        server = serve(out)
        page, other = view(server.address), view(server.address)
        done = "fedrtPage.data && fedrtPage.data.progress.done"
        page.wait(f"{done} > 0", 240)
        first = page.run(done)
        page.wait(f"{done} > {first}")
        other.wait(f"{done} > {first}")
        assert "left" in page.tab.locator("#progress-text").inner_text()
        page.show("chart-loss")
        assert len(page.series("chart-loss")[0]["data"]) >= first + 1
        # The slider stands at the newest round, and moves with it.
        assert page.tab.locator("#round").input_value() == page.run(
            "String(fedrtPage.data.runs[0].done - 1)"
        )
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    killed_at = page.run(done)
    assert killed_at < ROUNDS
    again = run_fedrt("run", "--allow-code", "--resume", str(out), "--json")
    try:
        page.wait(f"{done} > {killed_at}", 120)
        page.wait("fedrtPage.data.progress.ended === 1", 240)
    finally:
        again.kill()
        again.communicate()
    assert page.run(done) == ROUNDS
    assert "ended" in page.tab.locator("#progress-text").inner_text()
    assert page.errors == other.errors == []
    assert {address.split("/")[2] for address in page.requests} == {server.address.split("/")[2]}
