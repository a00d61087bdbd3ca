"""The documentation site: every page is in its menu, every public name in its reference."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from typing import is_typeddict

import pytest
import yaml
from gallery import MOST_BYTES, PICTURES
from settings_page import words_of
from support.paths import ROOT

from fedrt import settings
from fedrt.scenario.tables.fields import PerDeviceRule, word_or
from fedrt.validation import Listed, Real, Whole

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
MADE = {
    "readme.md",
    "contributing.md",
    "changelog.md",
    *(f"notebooks/{script.stem}.md" for script in NOTEBOOKS),
}
"""Pages that the build makes of files elsewhere (tools/site_hooks.py)."""
REFERENCE = "".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))


def pages_in(menu: object) -> list[str]:
    if isinstance(menu, str):
        return [menu]
    entries = menu.values() if isinstance(menu, dict) else menu
    return [page for entry in entries for page in pages_in(entry)]


def test_every_page_is_in_the_menu_once():
    """The build would stop at a page that is not; this says so sooner."""
    there = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert Counter(pages_in(CONFIG["nav"])) == Counter([*there, *MADE])


@pytest.mark.parametrize("package", ["fedrt", "fedrt.control", "fedrt.cost"])
def test_every_public_name_is_in_the_reference_once(package):
    # A folder of the package has the function's name: the reference takes it from where it is.
    shown = REFERENCE.replace("::: fedrt.api.scenario\n", "::: fedrt.scenario\n")
    named = re.findall(rf"^::: {re.escape(package)}\.(\w+)$", shown, flags=re.MULTILINE)
    assert Counter(named) == Counter(import_module(package).__all__)


def test_the_site_needs_no_other_machine():
    """The reader's fonts, and a script for searching from a folder; the build checks the rest."""
    assert CONFIG["theme"]["font"] is False
    assert all((DOCS / script).is_file() for script in CONFIG["extra"]["polyfills"])
    assert CONFIG["strict"] is True
    levels = [*CONFIG["validation"]["nav"].values(), *CONFIG["validation"]["links"].values()]
    assert set(levels) == {"warn"}


def test_every_picture_of_the_gallery_is_shown_and_small():
    shown = re.findall(r"\]\(gallery/([\w-]+)\.png\)", (DOCS / "gallery.md").read_text())
    there = {path.stem: path.stat().st_size for path in (DOCS / "gallery").iterdir()}
    assert Counter(shown) == Counter(there.keys()) == Counter(PICTURES.keys())
    assert {name for name, size in there.items() if size > MOST_BYTES} == set()


SETTINGS = (DOCS / "settings.md").read_text()


def test_every_setting_that_type_checkers_know_is_on_the_page():
    """The page is made from the rules; `fedrt.settings` is written by hand beside them."""
    known = {
        name
        for each in vars(settings).values()
        if is_typeddict(each)
        for name in each.__annotations__
    }
    shown = set(re.findall(r"^\| `(\w+)` \|", SETTINGS, flags=re.MULTILINE))
    sections = set(re.findall(r"^## `\[(\w+)\]`", SETTINGS, flags=re.MULTILINE))
    assert len(known) > 60
    assert known - shown - sections == set()


def test_a_setting_of_several_kinds_is_shown_once_if_it_is_the_same():
    servers = SETTINGS.partition("### `learning.server_optimiser`")[2].partition("\n### ")[0]
    assert re.findall(r"`learning_rate` \|[^|]*\| (\S+) \|", servers) == [
        "`1.0`",
        "`0.01`",
        "`0.01`",
    ]
    channels = SETTINGS.partition("## `[channel]`")[2].partition("\n## ")[0]
    assert channels.count("| `law` |") == channels.count("| `noise_figure_db` |") == 1


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Real(above=0, most=1e6), ["number `> 0` and `<= 1e6`"]),
        (
            word_or(("even",), Listed(Whole(1, 2000))),
            ['`"even"`', "list: whole number, `1` to `2,000`"],
        ),
        (Listed(Listed(Real(least=-1e-3), 2, 2)), ["list of lists of 2: number `>= -0.001`"]),
        (PerDeviceRule(Real(least=0)), ["per device: number `>= 0`"]),
    ],
)
def test_rules_in_words(rule, words):
    assert words_of(rule) == words
