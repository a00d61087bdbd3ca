"""Draw the README's picture: the page of a fresh comparison, as a browser shows it.

    python tools/page_picture.py docs/page.png

Trains six policies on digits, writes their page and takes a picture of its first screens side by
side, small enough for a repository.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from fedrt.cli import main as fedrt

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, GAP = 1360, 1320, 16
COLOURS = 160
MOST_BYTES = 300_000
PARTS = ("body", "#rounds")
"""What stands at the top of each screen."""


def chromium() -> str:
    """The browser's program."""
    browser_path = next(filter(None, map(shutil.which, NAMES)), None)
    if browser_path is None:
        raise SystemExit("no Chromium on this machine: install the chromium package")
    return browser_path


def save(picture: Image.Image, path: Path, most_bytes: int, colours: int = COLOURS) -> None:
    """Write a picture with few colours, or say that it is too large for a repository."""
    # Means of the colours' neighbourhoods: thin lines and wide backgrounds keep theirs.
    few = picture.quantize(colours, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {size} bytes")
    if size > most_bytes:
        raise SystemExit(f"{path}: more than {most_bytes} bytes")


def take(page: Path) -> list[Image.Image]:
    """The screens of a page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        screens = []
        for part in PARTS:
            tab.locator(part).evaluate("(element) => element.scrollIntoView()")
            tab.wait_for_timeout(3000)
            screens.append(Image.open(io.BytesIO(tab.screenshot())))
        browser.close()
    return screens


def main() -> None:
    """Train, write the page, take the picture."""
    parser = argparse.ArgumentParser(description="draw the README's picture of the page")
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=Path, help="a folder of runs instead of a fresh one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = args.runs or Path(folder) / "quickstart"
        page = Path(folder) / "page.html"
        if args.runs is None:
            fedrt(["compare", "quickstart", "--seeds", "0,1,2", "--out", str(runs), "--json"])
        if fedrt(["report", str(runs), "--out", str(page)]):
            raise SystemExit("no page was written")
        screens = take(page)
    whole = Image.new("RGB", (len(screens) * (WIDTH + GAP) - GAP, HEIGHT), "white")
    for i, screen in enumerate(screens):
        whole.paste(screen, (i * (WIDTH + GAP), 0))
    save(whole, args.out, MOST_BYTES)


if __name__ == "__main__":
    main()
