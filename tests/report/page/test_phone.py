"""Pages of every kind on a phone in a real browser: nothing on them scrolls sideways."""

from __future__ import annotations

import pytest
from support.page_kinds import KINDS, make

from fedrt.report.page.write import write_page

PHONE = 390
HIGH = 14_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders by kind, each made when it is first asked for."""
    out, made = tmp_path_factory.mktemp("kinds"), {}

    def folder(kind: str):
        if kind not in made:
            made[kind] = make(kind, out / kind)
        return made[kind]

    return folder


def look(view, folder, **options):
    write_page([folder], folder / "page.html")
    page = view((folder / "page.html").as_uri(), height=HIGH, **options)
    # Whatever is folded away is to fit as well.
    page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.wait_for_charts()
    return page


def check_width(page) -> None:
    """Nothing is wider than the phone, and no part of the page has to be moved sideways."""
    assert page.run("document.documentElement.scrollWidth") <= PHONE
    assert page.sideways() == []
    assert page.errors == []
    assert page.run("window.broken") is None


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_page_scrolls_sideways(kind, folders, view):
    check_width(look(view, folders(kind), width=PHONE))


@pytest.mark.parametrize("name", ["compared", "trained_run"])
def test_neither_does_a_comparison_nor_a_trained_run(name, request, view):
    page = look(view, request.getfixturevalue(name), width=PHONE)
    check_width(page)
    # Nor do their tables in a window of usual width.
    page.resize(1200)
    assert page.sideways() == []


def test_a_row_of_a_table_is_a_card_with_the_names_of_its_numbers(folders, view):
    page = look(view, folders("shipped"), width=PHONE)
    time = page.tab.locator("#summary-table td:nth-child(4)").first
    before = time.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    assert before == '"time"'
    assert not page.tab.locator("#summary-table thead").is_visible()
    page.resize(1200)
    assert page.tab.locator("#summary-table thead").is_visible()


def test_a_hundred_servers_are_a_matrix_and_a_few_a_graph(folders, view):
    page = look(view, folders("sparse"), width=PHONE)
    (series,) = page.series("chart-graph")
    assert series["type"] == "custom"
    links = {tuple(cell["value"]) for cell in series["data"]}
    assert {(b, a) for a, b in links} == links  # both halves
    kept = sum(cell["link"]["fate"] == 1 for cell in series["data"]) // 2
    assert f"{kept} kept" in page.tab.locator("#graph-key").inner_text()
    cell = series["data"][0]
    said = page.hover("chart-graph", {"gridIndex": 0}, cell["value"])
    assert f"edge server {cell['link']['from']} and {cell['link']['to']}" in said
    before = str(series["data"])
    page.tab.locator("#round").press("Home")
    page.wait_for_round(0)
    page.show("chart-graph")
    page.wait("fedrtPage.charts['chart-graph'].chart.getOption().series[0].data.length > 0")
    assert str(page.series("chart-graph")[0]["data"]) != before
    few = look(view, folders("faults"), width=PHONE)
    assert few.series("chart-graph")[0]["type"] == "graph"
