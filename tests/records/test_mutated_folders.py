"""Damaged folders of results end in a page, an answer or a line, whatever is wrong with them.

FEDRT_MUTATIONS says how many cases there are, FEDRT_MUTATION_SEED which; `make fuzz` takes 500.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import traceback

import pytest
from support.mutations import assert_no_traceback, mutate_folder, outcome_of
from support.tiny import as_options
from support.trained import OPTIONS, start, train, trained

from fedrt.cli import main
from fedrt.report.serve import Watched
from fedrt.studies.compare import go_on, start_comparison
from fedrt.studies.estimates import estimate
from fedrt.studies.training import carry_on

CASES = int(os.environ.get("FEDRT_MUTATIONS", "60"))
SEED = os.environ.get("FEDRT_MUTATION_SEED", "0")
BATCHES = 6
HANG_S = 600
"""Nothing here takes more than seconds: a command that waits for this long waits forever."""
SMALL = (
    "learning.model='small-cnn'",
    "learning.model_bits=194880",
    "rounds={global_rounds=3,edge_rounds=2,local_steps=1,gossip_steps=1}",
)


class StopError(BaseException):
    """Ends training at once, as a kill would."""


def stop(*done):
    raise StopError


def quiet(line):
    pass


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of every kind, with the command that goes on with each; copies are damaged."""
    base = tmp_path_factory.mktemp("whole")
    scenario = trained(*SMALL)
    start(base / "stopped", scenario, engine="stacked", chunk=2, workers=1)
    with pytest.raises(StopError):
        carry_on(base / "stopped", stop, quiet)
    train(base / "ended", scenario)
    compared = start_comparison(scenario, ["fedrt", "static-t"], [0], base / "compared", OPTIONS)
    with pytest.raises(StopError):
        go_on(compared, stop, quiet)
    faulty = trained(*SMALL, "faults.silent={kind='random',probability=0.3}")
    estimate(faulty, ["fedrt", "fedrt-plus"], [0, 1], base / "estimated")
    vary = ["--vary", "bandwidth.scale=1,2", "--policies", "fedrt,static-t", "--json"]
    assert main(["sweep", "quickstart", *as_options(), *vary, "--out", str(base / "swept")]) == 0
    sized = ["--deadline", "1h", "--vary", "bandwidth.scale=1..8", "--json", "--allow-overspend"]
    assert main(["size", "quickstart", *as_options(), *sized, "--out", str(base / "sized")]) == 0
    commands = dict.fromkeys(("stopped", "ended", "estimated"), "run")
    commands |= {"compared": "compare", "swept": "sweep", "sized": "size"}
    return [(base / name, command) for name, command in commands.items()]


@pytest.fixture(autouse=True)
def _ends():
    """Whatever waits forever is told so."""

    def tell(number, frame):
        raise TimeoutError(f"still waiting after {HANG_S} s")

    before = signal.signal(signal.SIGALRM, tell)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def seen(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_folder_ends_in_a_page_an_answer_or_a_line(batch, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine\n")
    failures = []
    for number in range(batch, CASES, BATCHES):
        rng = random.Random(f"{SEED} {number}")
        whole, command = rng.choice(folders)
        folder = tmp_path / "deep" / "er" / whole.name
        shutil.copytree(whole, folder)
        done = mutate_folder(rng, folder, outside)
        try:
            look_at(folder, command)
            check_around(tmp_path, folder, outside)
        except AssertionError as error:
            failures.append(f"seed {SEED}, case {number}: {whole.name}: {done}: {error}")
        shutil.rmtree(folder)
        (tmp_path / "page.html").unlink(missing_ok=True)
    assert not failures, "\n\n".join(failures)


def look_at(folder, command):
    """Have a page made of the folder in both ways, and go on with it."""
    signal.alarm(HANG_S)
    assert_no_traceback(outcome_of("report", folder, "--out", "page.html"), "report")
    try:
        Watched([folder]).data()
    except Exception:
        raise AssertionError(f"watch: {traceback.format_exc()}") from None
    assert_no_traceback(outcome_of(command, "--resume", folder, "--json"), f"{command} --resume")
    signal.alarm(0)


def check_around(tmp_path, folder, outside):
    """Nothing was made, changed or removed beside the folder, and no code of it was loaded."""
    name = folder.name
    inside = ["er", f"er/{name}", *(f"er/{name}/{each}" for each in seen(folder))]
    assert seen(tmp_path / "deep") == sorted(inside)
    assert (outside / "precious").read_text() == "mine\n"
    assert seen(outside) == ["precious"]
    assert "support.canary" not in sys.modules
