"""The page of runs with downloads and overheads: parts that only they have."""

from __future__ import annotations

import numpy as np
import pytest
from pyarrow import parquet
from support.laws import SETTINGS
from support.page_data import unpack
from support.tiny import as_options
from support.viewer import Viewer

from fedrt.cli import main
from fedrt.records.history import ALL_PARTS
from fedrt.report.page.collect import collect

MORE = (*SETTINGS["downlink"], *SETTINGS["overheads"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run with downloads and overheads, and one without."""
    out = tmp_path_factory.mktemp("laws")
    for name, settings in (("more", MORE), ("paper", ())):
        command = ["estimate", "quickstart", *as_options(*settings), "--policies", "static-r"]
        assert main([*command, "--seeds", "0", "--out", str(out / name)]) == 0
    return out


def test_parts_are_named_where_a_run_has_more_of_them(folders):
    data = collect([folders / "more"])
    names = [name.removesuffix("_s") for name in ALL_PARTS]
    (line,), (run,) = data["lines"], data["runs"]
    assert line["part_names"] == names
    clusters = run["detail"]["clusters"]
    assert clusters["names"] == names
    parts = unpack(clusters["parts"]).reshape(4, 3, len(names))
    # Every cluster's parts add up to the round's time.
    times = unpack(run["detail"]["round_time_s"])
    np.testing.assert_allclose(parts.sum(2), np.repeat(times[:, None], 3, 1), rtol=1e-6)
    rows = parquet.read_table(folders / "more" / "static-r-0" / "edges.parquet").to_pandas()
    of_round = rows[(rows.global_round == 2) & (rows.edge == 1)]
    for k, part in enumerate(ALL_PARTS):
        np.testing.assert_allclose(parts[2, 1, k], of_round[part].sum(), rtol=1e-6)
    assert parts[2, 1, 0] > 0
    assert parts[2, 1, 3] == pytest.approx(2 * (2 * 0.05 + 0.5), rel=1e-6)


def test_a_run_under_the_papers_laws_says_nothing_of_them(folders):
    data = collect([folders / "paper"])
    assert "part_names" not in data["lines"][0]
    assert "names" not in data["runs"][0]["detail"]["clusters"]


def test_both_kinds_are_drawn_side_by_side(folders, tmp_path, browser):
    page = tmp_path / "page.html"
    runs = [str(folders / name) for name in ("more", "paper")]
    assert main(["report", *runs, "--out", str(page)]) == 0
    viewer = Viewer(browser, page.as_uri())
    for chart, hidden in (("parts", None), ("clusters", None), ("stacked", "waiting")):
        viewer.show(f"chart-{chart}")
        drawn = viewer.run(
            f"fedrtPage.charts['chart-{chart}'].chart.getOption().series.map((s) => s.name)"
        )
        names = [name.removesuffix("_s") for name in ALL_PARTS]
        assert drawn == [name for name in names if name != hidden]
    # The other run has four parts, and its charts follow.
    viewer.tab.locator("#run").select_option("1")
    viewer.show("chart-clusters")
    drawn = viewer.run(
        "fedrtPage.charts['chart-clusters'].chart.getOption().series.filter((s) => s.data.length)"
        ".map((s) => s.name)"
    )
    assert drawn == ["compute", "upload", "backhaul", "waiting"]
    assert viewer.errors == []
