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
from pyarrow import parquet
from support.children import LIMIT_S, environment
from support.tiny import tiny
from support.trained import TRAINING

from fedrt.cli import main
from fedrt.policies import make_policy
from fedrt.records.directory import RunDirectory
from fedrt.records.history import History
from fedrt.report.page.cache import Cache
from fedrt.report.page.collect import collect
from fedrt.report.page.encode import page_json
from fedrt.report.serve import Server
from fedrt.runs.loop import make_world, simulate_rounds
from fedrt.studies.estimates import estimate

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
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
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
    until = time.monotonic() + LIMIT_S
    while status(server, "data.json", **{"If-None-Match": tag}) == 304:
        assert time.monotonic() < until
        time.sleep(0.05)
    data = json.loads(get(server, "data.json")[2])
    assert data["progress"]["ended"] == 0


def test_a_folder_that_vanishes_and_comes_back(estimated, serve, tmp_path):
    server = serve(estimated)
    server.watched._look_again_at = 0.0
    assert "lines" in json.loads(get(server, "data.json")[2])
    shutil.move(estimated, tmp_path / "away")
    server.watched._look_again_at = 0.0
    assert json.loads(get(server, "data.json")[2]) == {
        "problems": [f"{estimated}: is not there; give a run directory or a folder of runs"]
    }
    shutil.move(tmp_path / "away", estimated)
    server.watched._look_again_at = 0.0
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
        connection = HTTPConnection(*server.server_address, timeout=LIMIT_S)
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
    settings = (
        *TRAINING,
        f"rounds.global_rounds={ROUNDS}",
        'learning.model="support.trained:Leisurely"',
    )
    options = [word for text in settings for word in ("--set", text)]
    options += ["--engine", "sequential", "--device", "cpu", "--out", str(out)]
    # Slow enough to be watched: 28 batches a round, more than a minute in all.
    return run_fedrt("run", "quickstart", *options, pause_s=0.05)


def run_fedrt(*words: str, pause_s: float = 0.0) -> subprocess.Popen:
    command = [sys.executable, "-m", "fedrt", *words]
    variables = environment(FEDRT_TEST_PAUSE_S=str(pause_s))
    return subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_watching_a_run_that_trains_is_killed_and_goes_on(tmp_path, serve, view):
    out = tmp_path / "run"
    run = start_run(out)
    try:
        while not (out / "rounds.parquet").exists():
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.05)
        # It stands still while the browser, which may take its time, is not looking for news.
        run.send_signal(signal.SIGSTOP)
        server = serve(out)
        page, other = view(server.address), view(server.address)
        done = "fedrtPage.data && fedrtPage.data.progress.done"
        page.wait(f"{done} > 0")
        first = page.run(done)
        run.send_signal(signal.SIGCONT)
        page.wait(f"{done} > {first}")
        run.send_signal(signal.SIGSTOP)
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
        page.wait(f"{done} > {killed_at}")
        page.wait("fedrtPage.data.progress.ended === 1")
    finally:
        again.kill()
        again.communicate()
    assert page.run(done) == ROUNDS
    assert "ended" in page.tab.locator("#progress-text").inner_text()
    assert page.errors == other.errors == []
    assert {address.split("/")[2] for address in page.requests} == {server.address.split("/")[2]}


def test_two_hundred_viewers_at_once_lose_no_page(estimated, serve):
    """All connections are open before the first one asks, as when a browser opens many tabs."""
    server = serve(estimated)
    lines = [socket.create_connection(server.server_address[:2], timeout=60) for _ in range(200)]
    ask = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    for line in lines:
        line.sendall(ask)
    whole = set()
    for line in lines:
        with line, line.makefile("rb") as answer:
            whole.add(answer.read())
    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in whole)
    assert all(answer.endswith(server.page) for answer in whole)


def test_many_viewers_may_wait(estimated):
    """Nobody is answered yet: the system keeps them all, where it kept five."""
    most = Path("/proc/sys/net/core/somaxconn")
    count = min(200, int(most.read_text())) if most.exists() else 100
    with Server([estimated], "127.0.0.1", 0) as server:
        where = server.server_address[:2]
        waiting = [socket.create_connection(where, timeout=60) for _ in range(count)]
        for line in waiting:
            line.close()


def test_linked_figures_are_not_served(estimated, serve, tmp_path):
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg>secret</svg>")
    (estimated / "x.svg").symlink_to(secret)
    (estimated / "y.png").symlink_to("/etc/passwd")
    os.mkfifo(estimated / "z.svg")
    server = serve(estimated)
    data = json.loads(get(server, "data.json")[2])
    assert [Path(figure["name"]).name for figure in data["figures"]] == ["picture.svg"]
    # Nor one that has become a link since.
    address = data["figures"][0]["address"]
    (estimated / "picture.svg").unlink()
    (estimated / "picture.svg").symlink_to(secret)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(server, address)


def test_the_config_of_a_study_is_not_read_through_a_link(tmp_path):
    words = ["--vary", "bandwidth.scale=1,2", "--policies", "fedrt"]
    few = ["--set", "rounds.global_rounds=2", "--json", "--out", str(tmp_path / "out")]
    assert main(["sweep", "quickstart", *words, *few]) == 0
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out" / "config.toml").unlink()
    (tmp_path / "out" / "config.toml").symlink_to(tmp_path / "secret")
    assert main(["report", str(tmp_path / "out")]) == 2


class Growing:
    """A run directory that grows round by round, and what is read of it at each look."""

    def __init__(self, folder: Path, rounds: int, monkeypatch) -> None:
        self.world = make_world(tiny(f"rounds.global_rounds={rounds}"), 0)
        self.directory = RunDirectory.create(folder, self.world.scenario, "ce-fedavg", 0, "")
        policy = make_policy("ce-fedavg")
        self.history = History("metropolis")
        self.rounds = simulate_rounds(self.world, policy)
        self.rows_read = 0
        self.cache = Cache()
        for name in ("read", "read_row_groups"):
            monkeypatch.setattr(parquet.ParquetFile, name, self._counting(name))

    def _counting(self, name):
        read = getattr(parquet.ParquetFile, name)

        def counted(source, *args, **options):
            table = read(source, *args, **options)
            self.rows_read += len(table)
            return table

        return counted

    def grow(self, rounds: int) -> None:
        for _ in range(rounds):
            self.history.add(next(self.rounds))
        self.directory.save(self.history)

    def look(self) -> int:
        """The rows that were read for a page; it must be the page that a fresh look gives."""
        self.rows_read = 0
        data = collect([self.directory.path], self.cache)
        rows = self.rows_read
        assert page_json(data) == page_json(collect([self.directory.path]))
        return rows


def test_a_look_reads_what_is_new(tmp_path, monkeypatch):
    """With groups of 100 rows: 14 of devices, 6 of edges, 3 of links and 1 of rounds a round."""
    monkeypatch.setattr("fedrt.records.directory.ROWS_IN_A_GROUP", 100)
    run = Growing(tmp_path / "run", 400, monkeypatch)
    run.grow(200)
    # The links are read twice: once to see how many there are.
    assert run.look() >= 200 * (14 + 6 + 3 + 1)
    assert run.look() == 0
    run.grow(1)
    soon = run.look()
    run.grow(150)
    run.look()
    run.grow(1)
    late = run.look()
    # At most two groups of each table, however long the run is.
    assert max(soon, late) <= 2 * 100 * 5


def test_a_run_that_begins_anew_is_read_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("fedrt.records.directory.ROWS_IN_A_GROUP", 100)
    run = Growing(tmp_path / "run", 60, monkeypatch)
    run.grow(60)
    run.look()
    shutil.rmtree(tmp_path / "run")
    again = Growing(tmp_path / "run", 61, monkeypatch)
    again.cache = run.cache
    again.grow(61)
    again.look()
