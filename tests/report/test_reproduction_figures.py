"""The paper's figures from kept cells: what is there is drawn, line by line."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.kept_cells import made_up

from fedrt.experiments.cells import BASE_GRAPHS, NON_IID, TABLE, cells_of
from fedrt.experiments.paper import METHODS
from fedrt.report import reproduction_figures as draw
from fedrt.report.figures import save_figure

SEEDS = (0, 1)


@pytest.fixture(scope="module")
def found():
    cells = cells_of((*TABLE, *NON_IID, *BASE_GRAPHS), METHODS, SEEDS)
    return {
        cell.name: made_up(cell.name, 5 + i, 100 + i, [0.3, np.nan, 0.5 + cell.seed / 10])
        for i, cell in enumerate(cells)
    }


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_convergence_has_a_line_for_every_method(found):
    figures = draw.convergence_figures(METHODS, SEEDS, found)
    assert {name: len(f.axes) for name, f in figures.items()} == {
        "fig-convergence-cifar10": 4,
        "fig-convergence-fmnist": 4,
        "fig-convergence-femnist": 2,
    }
    for figure in figures.values():
        assert all(list(lines(axes)) == list(METHODS) for axes in figure.axes)


def test_the_lines_are_the_kept_numbers(found):
    """Time is the mean over seeds, accuracy in percent, without the rounds that had none."""
    figure = draw.convergence_figures(METHODS, SEEDS, found)["fig-convergence-femnist"]
    kept = [found[f"femnist/static-t-{seed}"] for seed in SEEDS]
    line = lines(figure.axes[1])["static-t"]
    time_s = np.mean([k.rounds["ends_at_s"] for k in kept], axis=0)
    assert_allclose(line.get_xdata(), time_s[[0, 2]] / 3600)
    assert_allclose(line.get_ydata(), [30, 55])
    loss = lines(figure.axes[0])["static-t"]
    assert_allclose(loss.get_ydata(), kept[0].rounds["loss"])


def test_energy_is_drawn_by_round(found):
    figure = draw.energy_figure(METHODS, SEEDS, found)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == [f"{c.title}, 2 seeds" for c in TABLE]
    line = lines(shown[0])["mll-sgd"]
    assert_allclose(line.get_xdata(), [1, 2, 3])
    kept = [found[f"cifar10-iid/mll-sgd-{seed}"].rounds["energy_j_mean"] for seed in SEEDS]
    assert_allclose(line.get_ydata(), np.mean(kept, axis=0))


def test_non_iid_has_both_methods_for_each_number_of_labels(found):
    figure = draw.non_iid_figure(SEEDS, found)
    assert [axes.get_title() for axes in figure.axes] == ["CIFAR-10", "FMNIST"]
    for axes in figure.axes:
        assert len(axes.get_lines()) == 8
        assert "2 labels, FedRT" in lines(axes)
        assert "8 labels, Static-T" in lines(axes)


def test_base_graphs_end_with_the_complete_one(found):
    figure = draw.base_graph_figure(SEEDS, found)
    assert [axes.get_title() for axes in figure.axes] == [
        "CIFAR-10, IID, 2 seeds",
        "FEMNIST, 2 seeds",
    ]
    for axes in figure.axes:
        assert list(lines(axes)) == ["p = 0.2", "p = 0.4", "p = 0.6", "p = 0.8", "p = 1"]


def test_what_is_not_there_is_left_out(found):
    some = {name: kept for name, kept in found.items() if name.startswith("femnist/")}
    assert list(draw.convergence_figures(METHODS, SEEDS, some)) == ["fig-convergence-femnist"]
    figure = draw.base_graph_figure(SEEDS, some)
    assert [axes.get_title() for axes in figure.axes] == ["FEMNIST, 2 seeds"]
    assert list(lines(figure.axes[0])) == ["p = 1"]


def test_where_nothing_is_there_nothing_is_drawn():
    assert draw.convergence_figures(METHODS, SEEDS, {}) == {}
    assert draw.energy_figure(METHODS, SEEDS, {}) is None
    assert draw.non_iid_figure(SEEDS, {}) is None
    assert draw.base_graph_figure(SEEDS, {}) is None


def test_the_legend_has_the_lines_of_all_panels(found):
    """The first panel, CIFAR-10, has one line, FMNIST in the last row another."""
    pair = ("cifar10-iid/fedrt-0", "fmnist-iid/static-t-0", "fmnist-iid/fedrt-0")
    figure = draw.energy_figure(METHODS, SEEDS, {name: found[name] for name in pair})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedrt", "static-t"]
    some = {n: found[n] for n in ("fmnist-iid/fedrt-0", "fmnist-dirichlet/mll-sgd-0")}
    figure = draw.convergence_figures(METHODS, SEEDS, some)["fig-convergence-fmnist"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedrt", "mll-sgd"]


def test_lines_are_compared_over_the_seeds_that_all_of_them_have(found):
    """Static-T lacks seed 0, so the others show seed 1 alone, with 60 % at the end."""
    some = {n: k for n, k in found.items() if n != "femnist/static-t-0"}
    figure = draw.convergence_figures(METHODS, SEEDS, some)["fig-convergence-femnist"]
    right = figure.axes[1]
    assert right.get_title() == "FEMNIST, seed 1"
    assert all(line.get_ydata()[-1] == pytest.approx(60) for line in lines(right).values())


def test_lines_without_a_common_seed_show_their_own(found):
    pair = ("femnist/fedrt-0", "femnist/static-t-1")
    some = {name: found[name] for name in pair}
    (axes,) = draw.energy_figure(METHODS, SEEDS, some).axes
    assert axes.get_title() == "FEMNIST"
    ends = [line.get_ydata()[-1] for line in lines(axes).values()]
    assert ends == pytest.approx([found[name].energy_j for name in pair])


def test_methods_differ_without_colours(found):
    figure = draw.convergence_figures(METHODS, SEEDS, found)["fig-convergence-femnist"]
    looks = {(line.get_marker(), line.get_linestyle()) for line in figure.axes[0].get_lines()}
    assert len(looks) == len(METHODS)


def test_three_kinds_of_file_always_the_same(found, tmp_path):
    for name in ("a", "b"):
        figure = draw.energy_figure(METHODS, SEEDS, found)
        save_figure(figure, tmp_path, name, ("svg", "pdf", "png"))
    for kind in ("svg", "pdf", "png"):
        first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("a", "b"))
        assert first == second
        assert len(first) > 1000
