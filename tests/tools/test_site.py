"""The documentation site: every page is in its menu, every public name in its reference."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module

import pytest
import yaml
from support.paths import ROOT

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
DOCS = ROOT / "docs"
MADE = {"contributing.md", "changelog.md"}
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
