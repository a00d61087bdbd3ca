"""A real browser for the page's tests, one for the whole session; none: the tests say why."""

from __future__ import annotations

import os
import shutil

import pytest
from support.children import LIMIT_S
from support.page_data import POLICIES, ROUNDS
from support.tiny import as_options, tiny
from support.trained import train, trained
from support.viewer import Viewer

from fedrt.cli import main
from fedrt.report.page.write import write_page
from fedrt.studies.estimates import estimate

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """Five policies without training on two seeds; short of energy, so that budgets break."""
    out = tmp_path_factory.mktemp("page") / "compared"
    scenario = tiny("fleet.energy_j_per_edge_round=0.7", f"rounds.global_rounds={ROUNDS}")
    estimate(scenario, POLICIES, [0, 3], out, command="fedrt estimate <b>&")
    write_page([out], out / "page.html")
    return out


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory):
    """Five rounds of one policy, trained."""
    run = train(tmp_path_factory.mktemp("page") / "trained", trained())
    write_page([run], run / "page.html")
    return run


@pytest.fixture(scope="session")
def studies(tmp_path_factory):
    """The folders of a sweep, a front and a sizing, as their commands leave them."""
    out = tmp_path_factory.mktemp("studies")
    options = as_options("rounds.global_rounds=2")
    common = [*options, "--policies", "fedrt,ce-fedavg", "--json"]
    sweep = ["sweep", "quickstart", "--vary", "bandwidth.scale=1,2", "--vary", "backhaul.scale=1,2"]
    assert main([*sweep, *common, "--out", str(out / "sweep")]) == 0
    front = ["front", "quickstart", "--budgets", "0.5,1"]
    assert main([*front, *common, "--out", str(out / "front")]) == 0
    size = ["size", "quickstart", "--deadline", "200s", "--vary", "bandwidth.scale=0.5..8"]
    ample = ["--set", "fleet.energy_j_per_edge_round=10"]
    assert main([*size, *options, *ample, "--json", "--out", str(out / "size")]) == 0
    return out


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, the system's own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    given = os.environ.get("FEDRT_CHROMIUM")
    path = given or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine: install the chromium package")
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root, as tests in containers do.
        launched = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=1000 * LIMIT_S
        )
        yield launched
        launched.close()


@pytest.fixture
def view(browser):
    """Opens addresses in tabs of their own, which are closed at the end."""
    opened: list[Viewer] = []

    def look(address: str, **options) -> Viewer:
        opened.append(Viewer(browser, address, **options))
        return opened[-1]

    yield look
    for viewer in opened:
        viewer.tab.close()
