"""A tab of the browser, for the page's tests."""

from __future__ import annotations

import time

from support.children import LIMIT_S

SIDEWAYS = """() => {
  const wide = Array.from(document.querySelectorAll("body *")).filter((element) => {
    if (!element.getClientRects().length || element.closest(".tip")) return false;
    const box = element.getBoundingClientRect();
    const scrolls = element.scrollWidth > element.clientWidth + 1
      && ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
    return scrolls || box.right > innerWidth + 0.5 || box.left < -0.5;
  });
  return wide.map((element) => `${element.tagName} ${element.id} ${element.className}`);
}"""
"""The parts of a page that stick out or have to be moved sideways to be read."""


class Viewer:
    """A page in the browser that remembers what went wrong and who was asked for what."""

    def __init__(
        self, browser, address: str, *, width: int = 1200, height: int = 900, theme: str = "light"
    ) -> None:
        self.address = address
        size = {"width": width, "height": height}
        self.tab = browser.new_page(viewport=size, color_scheme=theme)
        self.tab.set_default_timeout(1000 * LIMIT_S)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on(
            "console",
            lambda line: self.errors.append(line.text) if line.type == "error" else None,
        )
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(address)
        self.wait("window.fedrtPage && window.fedrtPage.ready")

    def resize(self, width: int) -> None:
        """Make the tab so many pixels wide and wait until every chart has followed."""
        self.tab.set_viewport_size({"width": width, "height": 900})
        self.wait(
            "Array.from(document.querySelectorAll('.chart canvas')).every((c) => !c.offsetParent"
            " || Math.abs(c.offsetWidth - c.closest('.chart').offsetWidth) < 1)"
        )

    def wait_for_charts(self) -> None:
        """Wait until every chart is drawn, in a tab that is high enough to show all of them."""
        self.wait(
            "Object.values(fedrtPage.charts).every((c) => !c.element.offsetParent || !c.stale)"
        )

    def sideways(self) -> list[str]:
        """What sticks out of the tab at either side, or scrolls sideways in it."""
        return self.run(SIDEWAYS)

    def choose(self, name: str, value: str) -> None:
        """Check a radio button of the page."""
        self.tab.locator(f"input[name={name}][value={value}]").check()

    def run(self, script: str, *argument):
        return self.tab.evaluate(script, *argument)

    def wait(self, script: str) -> None:
        """Wait until something holds; by asking, since the page's policy lets nobody evaluate."""
        until = time.monotonic() + LIMIT_S
        while not self.run(script):
            assert time.monotonic() < until, f"still not so: {script}"
            self.tab.wait_for_timeout(20)

    def wait_for_round(self, t: int) -> None:
        """Wait until the slider's round is the one that is drawn."""
        self.wait(
            f"document.getElementById('round-text').textContent.startsWith('round {t + 1} of')"
        )

    def show(self, chart: str) -> None:
        """Bring a chart into view and wait until it is drawn."""
        self.tab.locator(f"#{chart}").scroll_into_view_if_needed()
        self.wait(f"fedrtPage.charts['{chart}'].chart && !fedrtPage.charts['{chart}'].stale")

    def show_all(self) -> None:
        """Bring every chart that has something to show into view."""
        for chart in self.run("Object.keys(fedrtPage.charts)"):
            if self.tab.locator(f"#{chart}").is_visible():
                self.show(chart)

    def series(self, chart: str) -> list[dict]:
        """The series of a chart: type, name and data. Charts out of view are not drawn anew."""
        self.show(chart)
        return self.run(
            "(id) => fedrtPage.charts[id].chart.getOption().series"
            ".map((s) => ({type: s.type, name: s.name, data: s.data}))",
            chart,
        )

    def hover(self, chart: str, finder: dict, point: list) -> str:
        """What the tooltip says over a point given in the chart's own values."""
        self.show(chart)
        x, y = self.run(
            "([id, finder, point]) => fedrtPage.charts[id].chart.convertToPixel(finder, point)",
            [chart, finder, point],
        )
        box = self.tab.locator(f"#{chart}").bounding_box()
        self.tab.mouse.move(box["x"] + x - 3, box["y"] + y - 3)
        self.tab.mouse.move(box["x"] + x, box["y"] + y)
        tip = self.tab.locator(f"#{chart} .tip")
        tip.wait_for(state="visible", timeout=1000 * LIMIT_S)
        return tip.inner_text()
