"""The page in a real browser: it loads alone, answers to hand and eye, and shows what was saved."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.page_data import POLICIES, ROUNDS
from support.tiny import tiny
from support.viewer import Viewer

from fedrt.report.page.write import write_page
from fedrt.studies.estimates import estimate


@pytest.fixture(scope="module")
def on_compared(compared, browser):
    """The comparison in one tab for many tests: each leaves it as it was."""
    viewer = Viewer(browser, (compared / "page.html").as_uri())
    yield viewer
    viewer.tab.close()


@pytest.fixture(scope="module")
def on_trained(trained_run, browser):
    """The trained run in one tab for many tests."""
    viewer = Viewer(browser, (trained_run / "page.html").as_uri())
    yield viewer
    viewer.tab.close()


def columns(path) -> dict[str, np.ndarray]:
    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def shown(value: float, digits: int) -> str:
    """A number as the page writes it: so many digits, no zeros at the end."""
    return np.format_float_positional(float(f"{value:.{digits}g}"), trim="-")


@pytest.mark.parametrize("name", ["on_compared", "on_trained"])
def test_it_loads_alone_without_a_word_of_complaint(name, request):
    page = request.getfixturevalue(name)
    page.show_all()
    assert page.errors == []
    assert page.requests == [page.address]


def test_five_policies_are_five_lines_with_bands(compared, on_compared):
    page = on_compared
    page.show("chart-energy")
    series = page.series("chart-energy")
    lines = [s for s in series if s["type"] == "line" and s["name"] != "budget"]
    assert [line["name"] for line in lines] == POLICIES
    assert [s["name"] for s in series if s["type"] == "custom"] == [f"{p} range" for p in POLICIES]
    rounds = [columns(compared / f"mll-sgd-{s}" / "rounds.parquet") for s in (0, 3)]
    mean = np.mean([r["energy_j_mean"] for r in rounds], axis=0)
    np.testing.assert_allclose([y for _, y in lines[-1]["data"]], mean, rtol=1e-12)
    # A line can be taken away and brought back by key; the others stay.
    button = page.tab.locator("#legend button", has_text="static-t")
    button.press("Enter")
    page.wait("document.querySelectorAll('[aria-pressed=false]').length === 1")
    left = [s["name"] for s in page.series("chart-energy") if s["type"] == "line"]
    assert left == ["fedrt", "static-r", "ce-fedavg", "mll-sgd", "budget"]
    # Against rounds instead of time.
    page.choose("axis", "round")
    xs = [x for x, _ in page.series("chart-energy")[1]["data"]]
    assert xs == list(range(1, ROUNDS + 1))  # counted as in the terminal
    page.choose("axis", "time_s")
    button.press("Enter")
    assert [s["name"] for s in page.series("chart-energy")] == [s["name"] for s in series]


def test_the_legend_brings_a_line_out(compared, view):
    page = view((compared / "page.html").as_uri())
    page.show("chart-energy")
    drawn = "document.querySelector('#chart-energy canvas').toDataURL()"
    plain = page.run(drawn)
    button = page.tab.locator("#legend button", has_text="static-t")
    button.hover()
    page.wait(f"{drawn} !== {plain!r}")
    page.tab.mouse.move(0, 0)
    page.wait(f"{drawn} === {plain!r}")
    button.focus()
    page.wait(f"{drawn} !== {plain!r}")


def test_hovering_a_curve_shows_the_saved_values(trained_run, on_trained):
    page = on_trained
    saved = columns(trained_run / "rounds.parquet")
    page.show("chart-accuracy")
    data = page.series("chart-accuracy")[0]["data"]
    there = np.flatnonzero(~np.isnan(saved["accuracy"]))
    for k, t in list(enumerate(there))[1:]:
        said = page.hover("chart-accuracy", {"gridIndex": 0}, data[k])
        assert f"{100 * saved['accuracy'][t]:.2f} %" in said
        assert f"round {t + 1}, " in said
    page.show("chart-loss")
    point = page.series("chart-loss")[0]["data"][3]
    assert shown(saved["loss"][3], 5) in page.hover("chart-loss", {"gridIndex": 0}, point)


def test_the_slider_moves_the_graph_by_mouse_and_by_key(compared, on_compared):
    page = on_compared
    page.show("chart-graph")
    slider = page.tab.locator("#round")
    assert slider.input_value() == str(ROUNDS - 1)
    seen = {}
    slider.focus()
    for t in range(ROUNDS - 1, -1, -1):
        assert slider.input_value() == str(t)
        page.wait_for_round(t)
        page.show("chart-graph")
        seen[t] = page.run(
            "fedrtPage.charts['chart-graph'].chart.getOption().series[0].links"
            ".map((l) => [l.link.from, l.link.to, l.link.bps, l.link.distance, l.link.fate])"
        )
        slider.press("ArrowLeft")
    rows = columns(compared / "fedrt-0" / "links.parquet")
    for t, links in seen.items():
        here = rows["global_round"] == t
        for column, i in (("edge", 0), ("edge2", 1), ("bps", 2), ("distance", 3), ("kept", 4)):
            expected = rows[column][here].astype(np.float32)
            np.testing.assert_array_equal(np.array([link[i] for link in links]), expected)
    assert len({str(links) for links in seen.values()}) == ROUNDS
    # By mouse, to the middle of the slider.
    box = slider.bounding_box()
    page.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert slider.input_value() in ("2", "3")
    slider.press("End")
    page.wait_for_round(ROUNDS - 1)
    assert page.errors == []


def test_hovering_a_link_shows_its_speed_distance_and_fate(compared, on_compared):
    page = on_compared
    page.show("chart-graph")
    rows = columns(compared / "fedrt-0" / "links.parquet")
    (last,) = np.flatnonzero(
        (rows["global_round"] == ROUNDS - 1) & (rows["edge"] == 0) & (rows["edge2"] == 1)
    )
    nodes = page.series("chart-graph")[0]["data"]
    middle = [(nodes[0][axis] + nodes[1][axis]) / 2 for axis in ("x", "y")]
    said = page.hover("chart-graph", {"seriesIndex": 0}, middle)
    assert f"edge server 0 and 1: {'kept' if rows['kept'][last] else 'pruned'}" in said
    assert f"{shown(rows['bps'][last] / 1e6, 4)} Mbit/s" in said
    assert shown(rows["distance"][last], 5) in said


def test_hovering_a_cluster_and_a_device_shows_the_saved_values(compared, on_compared):
    page = on_compared
    edges = columns(compared / "fedrt-0" / "edges.parquet")
    own = (edges["global_round"] == ROUNDS - 1) & (edges["edge"] == 1)
    page.show("chart-clusters")
    said = page.hover("chart-clusters", {"gridIndex": 0}, [1, 1])
    for part in ("compute", "upload", "backhaul"):
        assert f"{shown(edges[f'{part}_s'][own].sum(), 4)} s" in said
    devices = columns(compared / "fedrt-0" / "devices.parquet")
    here = (devices["global_round"] == 2) & (devices["device"] == 4)
    said = page.hover("chart-heat", {"seriesIndex": 0}, [2, 4])
    assert "device 4" in said
    assert f"{shown(devices['bandwidth_hz'][here].mean() / 1e3, 4)} kHz" in said
    page.choose("heat", "left_j")
    said = page.hover("chart-heat", {"seriesIndex": 0}, [2, 4])
    left = devices["left_j"][here][-1]
    scaled = f"{shown(left, 4)} J" if abs(left) >= 1 else f"{shown(left * 1e3, 4)} mJ"
    assert scaled in said
    page.choose("heat", "bandwidth_hz")


def test_devices_over_budget_are_marked(compared, on_compared):
    page = on_compared
    devices = columns(compared / "fedrt-0" / "devices.parquet")
    over = [n for n in range(7) if devices["left_j"][devices["device"] == n][-1] < 0]
    assert over
    page.show("chart-heat")
    marks = page.series("chart-heat")[1]["data"]
    assert [row for _, row in marks] == over
    assert f"{len(over)} of 7 devices over budget" in page.tab.locator("#devices-text").inner_text()
    page.show("chart-budgets")
    spent = page.series("chart-budgets")[1]["data"]
    assert [n for n, value in enumerate(spent) if value != "-"] == over


def test_dark_and_light_by_the_system_and_by_hand(compared, view):
    page = view((compared / "page.html").as_uri(), theme="dark")

    def brightness():
        colour = page.run("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour[4:-1].split(","))

    assert brightness() < 150
    page.tab.emulate_media(color_scheme="light")
    page.wait("document.documentElement.dataset.theme === 'light'")
    assert brightness() > 600
    page.show_all()
    page.tab.locator("#theme").press("Enter")
    assert brightness() < 150
    page.show_all()
    # What the viewer has chosen stays, whatever the system does.
    page.tab.emulate_media(color_scheme="light")
    page.tab.emulate_media(color_scheme="dark")
    page.tab.locator("#theme").click()
    assert brightness() > 600
    assert page.errors == []


@pytest.mark.parametrize("name", ["on_compared", "on_trained"])
def test_nothing_sticks_out_at_any_width(name, request):
    page = request.getfixturevalue(name)
    for width in (390, 1600, 1200):
        page.resize(width)
        page.show_all()
        assert page.run("document.documentElement.scrollWidth") <= width
        charts = page.run(
            "Array.from(document.querySelectorAll('.chart canvas'),"
            " (c) => [c.getBoundingClientRect().left, c.getBoundingClientRect().right])"
        )
        assert len(charts) >= 6
        assert all(0 <= left < right <= width for left, right in charts)
    assert page.errors == []


def test_what_is_missing_in_a_round_is_shown_as_down_or_left_out(compared, tmp_path, view):
    """In the last round link 0-1 has no speed, server 1 no rows, device 4 none in any round."""
    run, last = tmp_path / "run", ROUNDS - 1
    shutil.copytree(compared / "fedrt-0", run)
    for name, keep in (
        ("edges", lambda row: (row["global_round"], row["edge"]) != (last, 1)),
        ("devices", lambda row: row["device"] != 4),
        ("links", lambda row: True),
    ):
        path = run / f"{name}.parquet"
        rows = [row for row in parquet.read_table(path).to_pylist() if keep(row)]
        for row in rows:
            if name == "links" and row["global_round"] == last and row["edge2"] == 1:
                row["bps"] = 0.0
        parquet.write_table(pa.Table.from_pylist(rows), path)
    write_page([run], tmp_path / "page.html")
    page = view((tmp_path / "page.html").as_uri())
    page.show_all()
    assert "1 down" in page.tab.locator("#graph-key").inner_text()
    bars = page.series("chart-clusters")
    assert [bar["data"][1] for bar in bars] == ["-"] * 4
    assert all(isinstance(bar["data"][0], int | float) for bar in bars)
    assert {row for _, row, _ in page.series("chart-heat")[0]["data"]} == {0, 1, 2, 3, 5, 6}
    assert page.errors == []


NASTY = "</script><img src=x onerror=window.broken=1><script>window.broken=1</script>&lt;"


def test_text_from_configs_stays_text(tmp_path, view):
    out = tmp_path / "<b onclick=1>&"
    scenario = tiny(f'name="{NASTY}"', f'description="{NASTY}"', "rounds.global_rounds=2")
    estimate(scenario, ["fedrt", "ce-fedavg"], [0], out, command=NASTY)
    run = out / "fedrt-0"
    environment = f'{{"system": "{NASTY}", "libraries": {{"{NASTY}": 1}}}}'
    (run / "environment.json").write_text(environment)
    (out / "static-t-0").mkdir()
    (out / "static-t-0" / "run.json").write_text(f'["{NASTY}"]')
    write_page([out], tmp_path / "page.html")
    page = view((tmp_path / "page.html").as_uri())
    page.show_all()
    assert page.run("window.broken") is None
    assert page.tab.locator("#title").inner_text() == NASTY
    assert page.tab.title() == f"{NASTY} · FedRT"
    assert NASTY in page.tab.locator("#configs-list").inner_text()
    assert page.tab.locator("main img, main b[onclick]").count() == 0
    assert page.errors == []
    assert len(page.requests) == 1


def test_a_page_with_problems_says_so_and_shows_the_rest(compared, tmp_path, view):
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    (out / "fedrt-0" / "links.parquet").write_bytes(b"PAR1")
    (out / "static-r-0" / "summary.json").unlink()
    write_page([out], tmp_path / "page.html")
    page = view((tmp_path / "page.html").as_uri())
    page.show_all()
    assert "links.parquet: cannot be read" in page.tab.locator("#problems").inner_text()
    assert "unfinished" in page.tab.locator("#summary-table").inner_text()
    assert not page.tab.locator("#chart-graph").is_visible()
    assert page.tab.locator("#chart-clusters").is_visible()
    page.tab.locator("#run").select_option(label="fedrt, seed 3")
    assert page.tab.locator("#chart-graph").is_visible()
    assert page.errors == []


@pytest.mark.parametrize("rounds", [0, 3])
def test_an_unfinished_run_says_how_far_it_came(rounds, trained_run, tmp_path, view):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    (run / "summary.json").unlink()
    path = run / "rounds.parquet"
    parquet.write_table(parquet.read_table(path).slice(0, rounds), path)
    if not rounds:
        path.unlink()
    write_page([run], tmp_path / "page.html")
    page = view((tmp_path / "page.html").as_uri())
    page.show_all()
    assert page.tab.locator("#progress-text").inner_text() == f"{rounds} of 5 rounds, unfinished"
    assert f"{rounds} of 5, unfinished" in page.tab.locator("#summary-table").inner_text()
    assert page.tab.locator("#empty").is_visible() == (not rounds)
    assert page.tab.locator("#rounds").is_visible() == bool(rounds)
    assert page.errors == []


def test_studies_in_the_browser(studies, tmp_path, view):
    write_page([studies / name for name in ("sweep", "front", "size")], tmp_path / "page.html")
    page = view((tmp_path / "page.html").as_uri())
    page.show_all()
    saved = json.loads((studies / "sweep" / "sweep.json").read_text())["points"]
    page.tab.locator("#study-0 select").nth(1).select_option(label="2")
    page.show("chart-study-0")
    series = page.series("chart-study-0")
    assert [s["name"] for s in series] == ["fedrt", "ce-fedavg", "over budget"]
    for s in series[:-1]:
        times = [
            p["policies"][s["name"]]["total_time_s"]["mean"]
            for p in saved
            if p["settings"]["backhaul.scale"] == 2
        ]
        shown_times = np.array([y for _, y in s["data"]])
        np.testing.assert_allclose(shown_times / shown_times[0], np.array(times) / times[0])
    sized = json.loads((studies / "size" / "size.json").read_text())
    assert page.tab.locator("#study-2 .answer").inner_text() == sized["sentence"]
    assert "fedrt-plus" in page.tab.locator("#study-2 h2").inner_text()
    page.tab.locator("#study-2 summary").first.click()
    words = page.tab.locator("#study-2 td:last-child").all_inner_texts()
    assert words == [each["verdict"] for each in sized["tried"]]
    assert page.errors == []
