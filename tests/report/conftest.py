"""A real browser for the page's tests, one for the whole session; none: the tests say why."""

from __future__ import annotations

import os
import shutil
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, the system's own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    given = os.environ.get("FEDRT_CHROMIUM")
    path = given or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine: install the chromium package")
    with sync_api.sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root, as tests in containers do.
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


class Viewer:
    """A page in the browser that remembers what went wrong and who was asked for what."""

    def __init__(self, browser, address: str, *, width: int = 1200, theme: str = "light") -> None:
        size = {"width": width, "height": 900}
        self.tab = browser.new_page(viewport=size, color_scheme=theme)
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

    def run(self, script: str, *argument):
        return self.tab.evaluate(script, *argument)

    def wait(self, script: str, seconds: float = 60.0) -> None:
        """Wait until something holds; by asking, since the page's policy lets nobody evaluate."""
        until = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < until, f"still not so: {script}"
            self.tab.wait_for_timeout(20)

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
        """The series of a chart: type, name and data."""
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
        tip.wait_for(state="visible", timeout=5000)
        return tip.inner_text()


@pytest.fixture
def view(browser):
    """Opens addresses in tabs of their own, which are closed at the end."""
    opened: list[Viewer] = []

    def look(address: str, **options) -> Viewer:
        opened.append(Viewer(browser, address, **options))
        return opened[-1]

    yield look
    for viewer in opened:
        viewer.tab.close()
