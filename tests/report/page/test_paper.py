"""A page printed to PDF in a real browser: every chart is on paper, and nothing is cut off."""

from __future__ import annotations

import pytest
from support.page_kinds import make
from support.viewer import Viewer

from fedrt.report.page.write import write_page

INK = """() => {
  window.onPaper = {};
  addEventListener("beforeprint", () => {
    for (const chart of document.querySelectorAll(".chart")) {
      if (!chart.offsetParent) continue;
      const paper = chart.querySelector("canvas.paper");
      const seen = new Set();
      const size = paper ? [paper.width, paper.height] : [];
      const data = paper ? paper.getContext("2d").getImageData(0, 0, ...size).data : [];
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
      }
      window.onPaper[chart.id] = seen.size;
    }
  });
}"""
CHARTS = """() => Array.from(document.querySelectorAll(".chart"))
  .filter((chart) => chart.offsetParent).map((chart) => chart.id)"""
CUT = """() => Array.from(document.querySelectorAll("main table, main pre, main p"))
  .filter((element) => element.getClientRects().length
    && (element.scrollWidth > element.clientWidth + 1
      || element.getBoundingClientRect().right > innerWidth + 0.5))
  .map((element) => `${element.tagName} ${element.id} ${element.className}`)"""


@pytest.fixture(scope="module")
def printed(browser, compared, studies, tmp_path_factory):
    """A tab with a page of many charts, of which only those at the top have come into view."""
    out = tmp_path_factory.mktemp("paper")
    joint = make("joint", out / "joint")
    folders = [joint, compared, *(studies / name for name in ("sweep", "front", "size"))]
    write_page(folders, out / "page.html")
    viewer = Viewer(browser, (out / "page.html").as_uri())
    yield viewer
    viewer.tab.close()


def test_every_chart_is_drawn_on_paper(printed):
    drawn = "Object.values(fedrtPage.charts).filter((each) => each.chart).length"
    charts = printed.run(CHARTS)
    assert len(charts) >= 14
    assert printed.run(drawn) < len(charts)  # the others wait until somebody scrolls to them
    printed.run(INK)
    pdf = printed.tab.pdf(format="A4")
    ink = printed.run("window.onPaper")
    assert sorted(ink) == sorted(charts)
    # A blank chart has no colours, one with axes alone has a few shades of grey.
    assert {name: count for name, count in ink.items() if count < 8} == {}
    # Chromium writes each canvas into the PDF as a picture.
    assert pdf.count(b"/Subtype /Image") >= len(charts)
    assert printed.tab.locator("canvas.paper").count() == 0
    assert printed.errors == []


def test_nothing_is_cut_off_on_paper(printed):
    printed.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    # What an A4 sheet with the page's margins is wide, in CSS pixels.
    printed.tab.set_viewport_size({"width": 710, "height": 1000})
    printed.tab.emulate_media(media="print")
    assert printed.run(CUT) == []
    printed.tab.emulate_media(media="screen")
