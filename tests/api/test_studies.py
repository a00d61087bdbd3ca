"""Studies and pages from Python: the results of the commands, with objects too."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest
from support.tiny import as_options, tiny

import fedrt
from fedrt.cli import main
from fedrt.policies import FedRT

QUIET = {"progress": False}


class Plainest(FedRT):
    """A policy of a user's own, which can be stopped."""

    name = "plainest"
    stops_at = None

    def plan(self, seen, books):
        if seen.t == self.stops_at:
            raise KeyboardInterrupt
        return super().plan(seen, books)


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(capsys, command, *words):
    """What a command prints as JSON."""
    capsys.readouterr()
    assert main([command, "quickstart", *as_options(), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sweep_is_that_of_the_command(capsys):
    study = fedrt.sweep(
        tiny(), vary={"bandwidth.scale": [1, 2]}, policies=["fedrt", "static-t"], seeds=2, **QUIET
    )
    words = ["--vary", "bandwidth.scale=1,2", "--policies", "fedrt,static-t", "--seeds", "2"]
    assert study.data == typed(capsys, "sweep", *words)
    assert study.summary["policy"].tolist() == ["fedrt", "static-t"] * 2
    assert study.plot().axes
    assert "<table" in study._repr_html_()


def test_a_front_is_that_of_the_command(capsys):
    study = fedrt.front(tiny(), budgets=[1.0, 2.0], policies="fedrt", **QUIET)
    words = ["--budgets", "1.0,2.0", "--policies", "fedrt"]
    assert study.data == typed(capsys, "front", *words)
    assert study.summary["budget_j"].tolist() == [1.0, 2.0]


def test_a_size_is_that_of_the_command(capsys):
    asked = {"deadline": 200.0, "vary": {"bandwidth.scale": (1, 8)}, "allow_overspend": True}
    study = fedrt.size(tiny(), **asked, **QUIET)
    words = ["--deadline", "200s", "--vary", "bandwidth.scale=1..8", "--allow-overspend"]
    assert study.data == typed(capsys, "size", *words)
    assert study.summary["makes_deadline"].any()


def test_a_bound_is_that_of_the_command(capsys):
    study = fedrt.bound(tiny(), policies="fedrt", **QUIET)
    assert study.data == typed(capsys, "bound", "--policies", "fedrt")
    assert (study.summary["above_bound"] >= 0).all()
    with pytest.raises(fedrt.InputError, match="there is no figure"):
        study.plot()


def test_a_study_with_an_object_is_resumed_with_the_object(monkeypatch, capsys):
    asked = {"vary": {"bandwidth.scale": [1, 2]}, "policies": ["fedrt", Plainest], **QUIET}
    whole = fedrt.sweep(tiny(), **asked)
    monkeypatch.setattr(Plainest, "stops_at", 1)
    with pytest.raises(KeyboardInterrupt):
        fedrt.sweep(tiny(), out="stopped", **asked)
    assert "go on with: fedrt.sweep(resume='stopped', ...)" in capsys.readouterr().err
    monkeypatch.setattr(Plainest, "stops_at", None)
    assert main(["sweep", "--resume", "stopped"]) == 2
    assert "was an object of a Python program" in capsys.readouterr().err
    again = fedrt.sweep(resume="stopped", policies=["fedrt", Plainest], **QUIET)
    assert again.data == whole.data


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: fedrt.sweep(vary={"a.b": [1]}), "`scenario`: give a shipped one's name"),
        (lambda: fedrt.sweep("quickstart", vary={"fleet.x": [1]}), "scenario.fleet.x: unknown"),
        (lambda: fedrt.size("quickstart", deadline="soon", vary={"a": (1, 2)}), "`deadline`"),
        (lambda: fedrt.bound("quickstart", rho=2), "`rho` "),
        (lambda: fedrt.estimate("quickstart", seeds=[]), "`seeds`: must be at least one"),
        (lambda: fedrt.estimate("quickstart", seeds=[1, 1]), "`seeds` "),
        (lambda: fedrt.estimate("quickstart", policies=[]), "`policies`: must name at least one"),
        (lambda: fedrt.estimate("nowhere"), 'the scenario "nowhere" does not exist'),
        (lambda: fedrt.report(), "`runs`: give at least one"),
        (lambda: fedrt.report("nowhere"), "nowhere"),
        (lambda: fedrt.watch(".", port=70_000), "`port` = 70000: must be a whole number"),
        (lambda: fedrt.export("nowhere", "m.pt"), "nowhere: is not a run directory"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(where, call, line):
    with pytest.raises(fedrt.InputError) as raised:
        call()
    assert str(raised.value).startswith(line)
    assert not list(where.rglob("*.toml"))


def test_pages_of_several_results(where):
    one, two = (fedrt.estimate(tiny(), policies="fedrt", seeds=n, **QUIET) for n in (0, 1))
    page = fedrt.report(one, two.folder, out="both.html")
    assert page.path.name == "both.html"
    assert "<iframe srcdoc" in page._repr_html_()
    with fedrt.watch(one, port=0) as server:
        import threading

        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert b"FedRT" in urlopen(server.address, timeout=60).read()
        finally:
            server.shutdown()
            thread.join()


def test_one_round_is_planned_as_by_the_command(capsys):
    from support.paths import EXAMPLES

    state = EXAMPLES / "round.json"
    plan = fedrt.plan(state, policy=Plainest)
    assert plan["round_time_s"] == fedrt.plan(json.loads(state.read_text()))["round_time_s"]
    assert main(["plan", str(state)]) == 0
    assert json.loads(capsys.readouterr().out) == fedrt.plan(fedrt.load_state(state))
