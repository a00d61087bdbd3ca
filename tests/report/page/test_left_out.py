"""The page of a run whose plans leave devices out."""

from __future__ import annotations

import numpy as np
import pytest
from pyarrow import parquet
from support.page_data import unpack
from support.tiny import tiny
from support.viewer import Viewer

from fedrt.report.page.collect import collect
from fedrt.report.page.write import write_page
from fedrt.studies import estimate


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Half of each cluster trains: of 2, 3 and 2 devices one."""
    out = tmp_path_factory.mktemp("page") / "run"
    estimate(tiny(), ["support.halves:Halves", "fedrt"], [0], out)
    return out


def devices_of(run, policy: str) -> dict:
    runs = collect([run])["runs"]
    (found,) = [each["detail"]["devices"] for each in runs if policy in each["folder"]]
    return found


def test_means_are_over_the_edge_rounds_in_which_a_device_trains(run):
    found = devices_of(run, "Halves")
    (folder,) = [
        path.parent for path in run.glob("*/devices.parquet") if "Halves" in path.parts[-2]
    ]
    rows = parquet.read_table(folder / "devices.parquet").to_pydict()
    shown = {
        name: unpack(found[name]).reshape(4, 7) for name in ("trains", "bandwidth_hz", "cpu_hz")
    }
    for t in range(4):
        for device in range(7):
            mine = [
                i
                for i, (a, b) in enumerate(zip(rows["global_round"], rows["device"], strict=True))
                if (a, b) == (t, device)
            ]
            trains = [i for i in mine if rows["trains"][i]]
            assert shown["trains"][t, device] == len(trains) / 2
            for name in ("bandwidth_hz", "cpu_hz"):
                mean = np.mean([rows[name][i] for i in trains]) if trains else np.nan
                np.testing.assert_allclose(shown[name][t, device], mean, rtol=1e-6)
    assert 0 in shown["trains"]


def test_where_everybody_trains_nothing_is_said_of_it(run):
    assert "trains" not in devices_of(run, "fedrt")


def test_it_can_be_chosen_where_it_is_there(run, browser):
    write_page([run], run / "page.html")
    viewer = Viewer(browser, (run / "page.html").as_uri())
    try:
        viewer.show_all()
        choice = viewer.tab.locator("#heat-trains")
        assert choice.is_visible()
        choice.click()
        assert "share of edge rounds" in viewer.tab.locator("#chart-heat").get_attribute(
            "aria-label"
        )
        assert viewer.errors == []
    finally:
        viewer.tab.close()
