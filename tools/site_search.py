"""Open the built site from its folder, without any server, and search it.

    python tools/site_search.py build/site

Every page but listings of source files is opened in Chromium; what it asks of another machine, an
error of its scripts, or a search that finds nothing ends with exit code 1. Without Chromium it says
so and looks at nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUESTIONS = {"idle power": "cost-model.html", "hindsight bound": "bound.html"}
"""What is searched for, and a page that must be among the results."""
WAIT_MS = 120_000


def problems_of(site: Path, browser_path: str) -> list[str]:
    """What is wrong with the pages of a site, a line each."""
    found: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1300, "height": 900})
        tab.on("pageerror", lambda error: found.append(f"{tab.url}: {error}"))
        tab.on("request", lambda request: _note(request.url, tab.url, found))
        for page in sorted(site.rglob("*.html")):
            if (site / "files") in page.parents:  # listings of source files, all alike
                continue
            tab.goto(page.resolve().as_uri())
        for words, wanted in QUESTIONS.items():
            tab.goto((site / "index.html").resolve().as_uri())
            if not _finds(tab, words, wanted):
                found.append(f"search for {words!r}: {wanted} is not among what is found")
        browser.close()
    return found


def _note(url: str, page: str, found: list[str]) -> None:
    if not url.startswith(("file:", "data:", "about:", "blob:")):
        found.append(f"{page}: asks for {url}")


def _finds(tab: Page, words: str, wanted: str) -> bool:
    """Whether a page is among the results of a search."""
    tab.click(".md-search__input")
    tab.keyboard.type(words)
    results = tab.locator(".md-search-result__item a")
    results.first.wait_for(state="attached", timeout=WAIT_MS)
    return any(wanted in (link.get_attribute("href") or "") for link in results.all())


def main() -> int:
    """Look at the site; the exit code."""
    parser = argparse.ArgumentParser(description="open every page of the site and search it")
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    browser_path = next(filter(None, map(shutil.which, NAMES)), None)
    if browser_path is None:
        print("no Chromium on this machine: the site was not opened")
        return 0
    problems = problems_of(site, browser_path)
    print("\n".join(problems) or "every page opens from its folder, and the search finds pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
