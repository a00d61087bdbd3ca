"""Pictures: what they show, that they redraw to the same bytes, and life without matplotlib."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from pyarrow import parquet

from fedrt.cli import main
from fedrt.report.figures import (
    LOG_FROM,
    draw_seeds,
    front_figure,
    legend_below,
    new_figure,
    policy_style,
    save_figure,
    set_log,
    short_names,
    size_figure,
    sweep_figure,
)
from fedrt.report.learning import accuracy_figure
from fedrt.studies.front import BUDGET, front_points
from fedrt.studies.labels import key_label
from fedrt.studies.sizing import Try, search
from fedrt.studies.span import Span
from fedrt.studies.sweep import plan_sweep, run_sweep

SHORT = ["rounds.global_rounds=2", "name=a$b^$c"]


@pytest.fixture(scope="module")
def swept():
    vary = {"backhaul.scale": ("1", "2", "8"), "base_graph.kind": ("ring", "star")}
    sweep = plan_sweep("quickstart", vary, ["fedrt", "ce-fedavg"], [0, 1], SHORT)
    return sweep, run_sweep(sweep)


def test_a_sweep_has_a_panel_for_each_other_setting_and_a_line_for_each_policy(swept, tmp_path):
    sweep, outcomes = swept
    figure = sweep_figure(sweep, outcomes)
    assert [axes.get_title() for axes in figure.axes] == ["kind = ring", "kind = star"]
    for axes, kind in zip(figure.axes, ("ring", "star"), strict=True):
        assert axes.get_xlabel() == "backhaul.scale"
        assert len(axes.containers) == 2
        line = axes.containers[0].lines[0]
        here = [o for o in outcomes if o.point.settings["base_graph.kind"] == kind]
        times = [[run["total_time_s"] for run in o.results["fedrt"]] for o in here]
        assert list(line.get_xdata()) == [1, 2, 8]
        assert list(line.get_ydata()) == pytest.approx([sum(t) / 2 for t in times])
        low, high = axes.get_ylim()
        assert low == 0
        assert high > max(line.get_ydata())
    assert figure.axes[0].get_ylabel() == "total time (s)"


def test_the_same_figure_gives_the_same_bytes(swept, tmp_path):
    for name in ("a", "b"):
        save_figure(sweep_figure(*swept), tmp_path, name)
    for kind in ("png", "svg"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]


def test_a_sizing_shows_every_try_and_the_deadline(tmp_path):
    def measure(value):
        return Try(value, problem="no") if value > 30 else Try(value, (100 / value, 90 / value))

    found = search(Span("fleet.num_edges", 1, 40, whole=True), 9.0, measure)
    figure = size_figure(found, "fedrt", "x")
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    good = [each for each in found.tries if each.worst_s <= 9]
    assert list(lines["makes the deadline"].get_xdata()) == [each.value for each in good]
    assert list(lines["cannot run"].get_xdata()) == [40]
    assert set(lines["deadline, 9 s"].get_ydata()) == {9.0}
    assert list(lines["least value, 12"].get_xdata()) == [12]
    save_figure(figure, tmp_path, "size")


def test_a_front_fills_the_efficient_points(tmp_path):
    sweep = plan_sweep(
        "quickstart", {BUDGET: ("0.02", "0.05", "0.2")}, ["fedrt-plus", "ce-fedavg"], [0], SHORT
    )
    points = front_points(run_sweep(sweep))
    figure = front_figure(sweep, points)
    filled = [
        spot
        for line in figure.axes[0].lines
        if line.get_linestyle() == "None" and line.get_label().startswith("_child")
        for spot in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    best = {(p.energy_j, p.time_s) for p in points if p.efficient}
    assert best <= set(filled)
    labels = {line.get_label() for line in figure.axes[0].lines}
    assert {"efficient", "not efficient", "front"} <= labels
    save_figure(figure, tmp_path, "front")


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([2.0, 2.0 * LOG_FROM], "log"),
        ([2.0, 1.9 * LOG_FROM], "linear"),
        ([0.02, 0.019 * LOG_FROM], "linear"),
        ([0.0, 100.0 * LOG_FROM], "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_values_span_a_wide_range(values, scale):
    axes = Figure().subplots()
    set_log(axes, "y", values)
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", scale)


def test_shipped_policies_look_different_without_colours():
    from fedrt.policies import POLICIES

    looks = [policy_style(name, list(POLICIES)) for name in POLICIES]
    assert len({look["marker"] for look in looks}) == len(POLICIES)
    assert len({look["linestyle"] for look in looks}) == len(POLICIES)
    assert policy_style("my:Own", ["fedrt", "my:Own"])["marker"] not in {
        look["marker"] for look in looks
    }


@pytest.mark.parametrize("every", [0.15, (0.05, 0.15)])
@pytest.mark.parametrize("measured", [1, 2])
def test_a_value_measured_once_is_seen_too(measured, every):
    figure = new_figure(2, 2)
    style = policy_style("fedrt", ["fedrt"]) | {"markevery": every}
    values = np.array([[np.nan] * (4 - measured) + [3.0] * measured])
    draw_seeds(figure.subplots(), np.arange(4.0), values, style)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    colour = np.round(255 * np.array(to_rgb(style["color"])))
    assert (np.asarray(canvas.buffer_rgba())[..., :3] == colour).all(-1).any()


def test_a_legend_of_long_names_stays_in_the_picture():
    names = [f"my_research_package.scheduling_policies:HurrySlowest{i}" for i in range(5)]
    figure = new_figure(4.6, 4.0)
    axes = figure.subplots()
    for name in ["fedrt", *names]:
        axes.plot([0, 1], [0, 1], label=name)
    legend_below(figure, axes)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent(canvas.get_renderer())
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    words = [text.get_text().replace("\n", "") for text in legend.get_texts()]
    assert words == ["fedrt", *names]


def test_the_loss_axis_has_plain_numbers(tmp_path):
    (tmp_path / "fedrt-0").mkdir()
    rows = {"ends_at_s": [1.0, 2.0], "accuracy": [0.1, 0.5], "loss": [2.9, 1.5]}
    parquet.write_table(pa.table(rows), tmp_path / "fedrt-0" / "rounds.parquet")
    figure = accuracy_figure(tmp_path, ["fedrt"], [0])
    FigureCanvasAgg(figure).draw()
    axis = figure.axes[1].yaxis
    words = [
        each.get_text() for which in ("major", "minor") for each in axis.get_ticklabels(which=which)
    ]
    assert "2" in words
    assert not any("10" in word for word in words)


@pytest.mark.parametrize("others", [(2.9, 1.5), (np.nan, np.nan)])
def test_the_loss_is_logarithmic_where_anybody_has_trained(others, tmp_path):
    for policy, losses in (("fedrt", (2.9, 1.5)), ("hfel", others)):
        (tmp_path / f"{policy}-0").mkdir()
        rows = {"ends_at_s": [1.0, 2.0], "accuracy": [0.1, 0.5], "loss": list(losses)}
        parquet.write_table(pa.table(rows), tmp_path / f"{policy}-0" / "rounds.parquet")
    assert accuracy_figure(tmp_path, ["fedrt", "hfel"], [0]).axes[1].get_yscale() == "log"
    alone = accuracy_figure(tmp_path, ["hfel"], [0]).axes[1].get_yscale()
    assert (alone == "linear") == np.isnan(others).all()


def test_names_on_axes_and_heads():
    assert key_label("bandwidth.hz") == "bandwidth.hz (Hz)"
    assert key_label(BUDGET) == f"{BUDGET} (J)"
    assert key_label("backhaul.scale") == "backhaul.scale"
    assert short_names(["a.x", "b.x", "c.y"]) == {"a.x": "a.x", "b.x": "b.x", "c.y": "y"}


def test_without_matplotlib_all_but_the_picture_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "out"
    args = ["--vary", "backhaul.scale=1,2", "--policies", "fedrt", "--set", SHORT[0]]
    assert main(["sweep", "quickstart", *args, "--json", "--out", str(out)]) == 0
    printed, err = capsys.readouterr()
    assert printed.count("\n") == 1
    assert err == (
        "note: a picture: needs matplotlib, which is not installed: pip install 'fedrt[plots]'\n"
    )
    assert (out / "sweep.csv").exists()
    assert not (out / "sweep.png").exists()
