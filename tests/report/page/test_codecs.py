"""The page's view of codecs: which device used which, their shares, bytes sent, step-ups."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.page_data import unpack
from support.tiny import tiny

from fedrt.messages import CODECS
from fedrt.report.page.collect import collect
from fedrt.report.page.write import write_page
from fedrt.studies.estimates import estimate

ROUNDS = 4
ORDER = ("int3", "int4", "int5", "int6", "int8", "float16")


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """`fedrt` and `fedrt-joint`, in whose run devices 2 and 5 are stepped up, 5 twice."""
    out = tmp_path_factory.mktemp("page") / "coded"
    estimate(tiny(f"rounds.global_rounds={ROUNDS}"), ["fedrt", "fedrt-joint"], [0], out)
    path = out / "fedrt-joint-0" / "devices.parquet"
    table = parquet.read_table(path)
    where = {(0, 0, 5), (1, 1, 2), (2, 0, 5)}
    keys = ("global_round", "edge_round", "device")
    places = zip(*(table[key].to_pylist() for key in keys), strict=True)
    stepped = pa.array([place in where for place in places])
    column = table.column_names.index("stepped_up")
    parquet.write_table(table.set_column(column, "stepped_up", stepped), path)
    write_page([out], out / "page.html")
    return out


def rows_of(folder) -> dict[str, np.ndarray]:
    table = parquet.read_table(folder / "fedrt-joint-0" / "devices.parquet")
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}


def test_the_data_are_those_of_the_rows(coded):
    plain, joint = (run["detail"] for run in collect([coded])["runs"])
    assert "codecs" not in plain
    rows, found = rows_of(coded), joint["codecs"]
    names = [name for name in ORDER if (rows["codec"] == name).any()]
    assert found["names"] == names
    shares = unpack(found["shares"]).reshape(ROUNDS, len(names))
    codec = unpack(found["by_device"]["codec"]).reshape(ROUNDS, 7)
    bits = unpack(found["by_device"]["bits"]).reshape(ROUNDS, 7)
    for t in range(ROUNDS):
        here = rows["global_round"] == t
        for k, name in enumerate(names):
            assert shares[t, k] == pytest.approx(np.mean(rows["codec"][here] == name))
        for n in range(7):
            used = rows["codec"][here & (rows["device"] == n)].tolist()
            assert names[codec[t, n]] == max(names, key=used.count)
            mean = np.mean([CODECS[name].bits for name in used])
            assert bits[t, n] == pytest.approx(mean)
        assert unpack(found["upload_bytes"])[t] == rows["upload_bytes"][here].sum()
    # 7 devices send 2 updates of a model of 1 MB in a round.
    assert unpack(found["model_bytes"]).tolist() == [14e6] * ROUNDS
    assert unpack(found["stepped_up"]).tolist() == [0, 0, 1, 0, 0, 2, 0]
    assert unpack(found["stepped_up_last"]).tolist() == [0, 0, 2, 0, 0, 3, 0]


def test_a_device_that_sends_nothing_has_no_codec(coded, tmp_path):
    out = tmp_path / "coded"
    shutil.copytree(coded, out)
    path = out / "fedrt-joint-0" / "devices.parquet"
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        if row["device"] == 3 and row["global_round"] == 1:
            row["codec"] = ""
    parquet.write_table(pa.Table.from_pylist(rows), path)
    found = collect([out])["runs"][1]["detail"]["codecs"]
    assert unpack(found["by_device"]["codec"]).reshape(ROUNDS, 7)[1, 3] == 255
    assert np.isnan(unpack(found["by_device"]["bits"]).reshape(ROUNDS, 7)[1, 3])
    assert unpack(found["model_bytes"]).tolist() == [14e6, 12e6, 14e6, 14e6]


def test_folders_without_these_columns_and_damaged_ones_still_open(coded, tmp_path):
    out = tmp_path / "coded"
    shutil.copytree(coded, out)
    path = out / "fedrt-joint-0" / "devices.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.drop_columns(["codec", "stepped_up"]), path)
    data = collect([out])
    assert "codecs" not in data["runs"][1]["detail"]
    assert data["problems"] == []
    numbers = table.set_column(table.column_names.index("codec"), "codec", table["device"])
    parquet.write_table(numbers, path)
    data = collect([out])
    assert "devices" in data["runs"][1]["detail"]
    (problem,) = data["problems"]
    assert problem.startswith(f"{path}: cannot be read")


def test_in_the_browser(coded, view):
    page = view((coded / "page.html").as_uri())
    assert not page.tab.locator("#codecs").is_visible()
    page.tab.locator("#run").select_option(label="fedrt-joint")
    assert "2 devices stepped up" in page.tab.locator("#codecs-text").inner_text()
    for width in (390, 1280):
        page.resize(width)
        page.show_all()
        assert page.run("document.documentElement.scrollWidth") <= width
    rows = rows_of(coded)
    cells = page.series("chart-codecs")[0]["data"]
    assert len(cells) == 7 * ROUNDS
    assert [row for _, row in page.series("chart-codecs")[1]["data"]] == [2, 5]
    here = (rows["device"] == 5) & (rows["global_round"] == 3)
    names = page.run("fedrtPage.data.runs[1].detail.codecs.names")
    (place,) = [value for t, n, value in cells if (t, n) == (3, 5)]
    said = page.hover("chart-codecs", {"seriesIndex": 0}, [3, 5])
    assert "device 5" in said
    assert names[place] in said
    assert names[place] in rows["codec"][here].tolist()
    assert "stepped up after round 3 (2 times)" in said
    shares = np.array([series["data"] for series in page.series("chart-codec-shares")])
    np.testing.assert_allclose(shares.sum(axis=0), 100.0, rtol=1e-5)
    whole = rows["upload_bytes"].reshape(ROUNDS, -1).sum(axis=1)
    sent = page.series("chart-bytes")[0]
    np.testing.assert_allclose(sent["data"], whole / 1e6, rtol=1e-12)
    # Back to a run that chooses none.
    page.tab.locator("#run").select_option(label="fedrt")
    assert not page.tab.locator("#codecs").is_visible()
    assert page.errors == []


def test_paper_shows_charts_that_have_not_come_into_view(coded, view):
    page = view((coded / "page.html").as_uri())
    page.tab.locator("#run").select_option(label="fedrt-joint")
    assert page.run("fedrtPage.charts['chart-bytes'].chart === null")
    page.run(
        "addEventListener('beforeprint', () => { window.papers = Array.from("
        "document.querySelectorAll('.paper'), (c) => [c.parentElement.id, c.width,"
        " c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0)]); })"
    )
    assert page.tab.pdf().startswith(b"%PDF")
    papers = page.run("window.papers")
    ids = [name for name, _, _ in papers]
    assert {"chart-energy", "chart-heat", "chart-codecs", "chart-bytes"} <= set(ids)
    assert all(width == 1280 and drawn for _, width, drawn in papers)
    assert page.run("document.querySelectorAll('.paper').length") == 0
    assert page.errors == []
