"""The page of a run on real devices: who is there, predicted and measured, what was learned."""

from __future__ import annotations

import json
import shutil

import pytest
from support.parties import six
from support.running import running
from support.viewer import Viewer

from fedrt.report.page.write import write_page


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The folder of a run on real connections."""
    folder = tmp_path_factory.mktemp("real")
    with running(folder, six()) as fleet:
        fleet.start_all()
        fleet.coordinate()
    write_page([folder / "run"], folder / "run" / "page.html")
    return folder / "run"


@pytest.mark.parametrize("width", [1200, 390])
def test_predicted_and_measured_are_shown(measured, browser, width):
    viewer = Viewer(browser, (measured / "page.html").as_uri(), width=width)
    viewer.show_all()
    text = viewer.tab.locator("#measured-text").inner_text()
    assert text.startswith("The run has ended. When it did, 6 of 6 devices were connected")
    assert "nobody was late" in text
    measured_s, predicted_s = viewer.series("chart-measured")
    assert [len(each["data"]) for each in (measured_s, predicted_s)] == [3, 3]
    (errors,) = viewer.series("chart-error")
    for error, real, planned in zip(
        errors["data"], measured_s["data"], predicted_s["data"], strict=True
    ):
        assert error == pytest.approx(100 * (planned - real) / real)
    rows = viewer.tab.locator("#measured-table tbody tr")
    assert rows.count() == 6
    assert "6 of 6" in rows.first.inner_text()
    assert "modelled" in rows.first.inner_text()
    assert viewer.tab.locator("#learned-table tbody tr").count() == 8
    assert "measured time" in viewer.tab.locator("#curves .choice").inner_text()
    assert viewer.errors == []
    assert viewer.sideways() == []


def test_who_is_missing_is_marked(measured, browser, tmp_path):
    shutil.copytree(measured, tmp_path / "run")
    path = tmp_path / "run" / "devices.json"
    said = json.loads(path.read_text())
    path.write_text(
        json.dumps(said | {"connected": [0, 2], "late": [1], "answering": [True, False]})
    )
    (tmp_path / "run" / "summary.json").unlink()
    write_page([tmp_path / "run"], tmp_path / "page.html")
    viewer = Viewer(browser, (tmp_path / "page.html").as_uri())
    text = viewer.tab.locator("#measured-text").inner_text()
    assert text.startswith("2 of 6 devices are connected; ▲ no answer from edge server 1;")
    assert "▲ late in the last round: device 1." in text
    states = viewer.tab.locator("#measured-table tbody td:nth-child(2)").all_inner_texts()
    assert states == ["connected", "▲ late", "connected", "away", "away", "away"]
    assert viewer.errors == []


def test_before_the_first_round_the_coordinator_waits(measured, browser, tmp_path):
    for name in ("run.json", "config.toml", "identity.json"):
        shutil.copy(measured / name, tmp_path / name)
    (tmp_path / "devices.json").write_text('{"run": "a"}')
    write_page([tmp_path], tmp_path / "page.html")
    viewer = Viewer(browser, (tmp_path / "page.html").as_uri())
    text = viewer.tab.locator("#measured-text").inner_text()
    assert text == "The coordinator has not heard of any device yet"
    assert not viewer.tab.locator("#measured-charts").is_visible()
    assert viewer.errors == []
