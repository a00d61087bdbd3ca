"""Take the pictures of docs/gallery.md: sections of pages as a browser shows them.

    python tools/gallery.py docs/gallery [NAME...]

Makes the studies below, writes their pages with `fedrt report` and takes a picture of one section
of each, small enough for a repository. Needs Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from page_picture import chromium, save
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
WIDTH, VIEW_HEIGHT, EDGE = 1100, 2600, 16
COLOURS = 256
MOST_BYTES = 150_000
WAIT_MS = 3000
"""Charts move to their places when they are drawn."""
STUDIES = {
    "trained": "compare quickstart --seeds 0,1,2",
    "planned": "estimate quickstart --policies fedrt-plus",
    "coded": "estimate quickstart --policies fedrt-joint",
    "many": "estimate bench/city --policies fedrt --set rounds.global_rounds=3",
    "swept": "sweep quickstart --policies fedrt,fedrt-plus --vary bandwidth.scale=0.5,1,2,4",
    "front": "front quickstart --policies ce-fedavg,fedrt,fedrt-plus",
    "sized": "size quickstart --deadline 15s --vary bandwidth.scale=1..8",
    "bound": "bound quickstart --policies ce-fedavg,static-t,fedrt,fedrt-plus",
    "bench": "",
    "testbed": "",
}
"""The commands whose pages are shown, by study; the results without one are committed."""
COMMITTED = {"bench": ROOT / "results" / "bench", "testbed": ROOT / "benchmarks/results/testbed"}


@dataclass(frozen=True)
class Picture:
    """A part of a study's page, by its CSS selector, down to the first element that `until` has."""

    study: str
    part: str
    until: str = ""
    width: int = WIDTH


PICTURES = {
    "summary": Picture("trained", "#summary", width=1500),
    "curves": Picture("trained", "#curves"),
    "round": Picture("planned", "#rounds"),
    "many-servers": Picture("many", "#graph-figure"),
    "devices": Picture("planned", "#devices"),
    "codecs": Picture("coded", "#codecs"),
    "data": Picture("trained", "#partition"),
    "sweep": Picture("swept", "#studies section", "figure"),
    "front": Picture("front", "#studies section", "figure"),
    "size": Picture("sized", "#studies section", "figure"),
    "bound": Picture("bound", "#studies section", "figure"),
    "bench": Picture("bench", "#studies section", "figure"),
    "measured": Picture("testbed", "#measured"),
    "testbed": Picture("testbed", "#testbed"),
}


def take(page: Path, picture: Picture, browser: Browser) -> Image.Image:
    """The part of the page as the browser shows it, with a narrow edge around it."""
    size = {"width": picture.width, "height": VIEW_HEIGHT}
    tab = browser.new_page(viewport=size, color_scheme="light")
    tab.goto(page.resolve().as_uri())
    part = tab.locator(picture.part).first
    part.evaluate("(element) => element.scrollIntoView()")
    tab.wait_for_timeout(WAIT_MS)
    box = part.bounding_box()
    assert box is not None, f"{picture.part}: is not shown"
    bottom = box["y"] + box["height"]
    if picture.until:
        last = part.locator(picture.until).first.bounding_box()
        assert last is not None, f"{picture.until}: is not shown"
        bottom = last["y"] + last["height"] - EDGE + 2  # nothing of what follows
    left, top = max(0.0, box["x"] - EDGE), max(0.0, box["y"] - EDGE)
    right = min(float(picture.width), box["x"] + box["width"] + EDGE)
    whole = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    tab.close()
    return whole.crop((int(left), int(top), int(right), int(bottom) + EDGE))


def page_of(study: str, folder: Path) -> Path:
    """The page of a study, which is made in the folder unless it is there."""
    page = folder / study / "page.html"
    if not page.exists():
        if study in COMMITTED:
            shutil.copytree(COMMITTED[study], folder / study)
        else:
            fedrt(f"{STUDIES[study]} --json --out {study}", folder)
        runs = [study]
        if study == "testbed":
            runs = [f"{study}/{each.name}" for each in sorted((folder / study).iterdir())]
        fedrt(f"report {' '.join(runs)} --out {study}/page.html", folder)
    return page


def fedrt(command: str, folder: Path) -> None:
    """Run a command in a folder, as a user does: pages show what was typed."""
    words = [sys.executable, "-m", "fedrt", *command.split()]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Make the studies, write their pages, take the pictures."""
    parser = argparse.ArgumentParser(description="take the pictures of the gallery")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help="only these pictures")
    parser.add_argument("--studies", type=Path, help="where studies are kept; else nowhere")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = args.studies or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name in args.names or PICTURES:
            picture = PICTURES[name]
            image = take(page_of(picture.study, folder), picture, browser)
            save(image, args.out / f"{name}.png", MOST_BYTES, COLOURS)
        browser.close()


if __name__ == "__main__":
    main()
