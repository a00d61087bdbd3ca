"""Files, functions and links that the documentation names exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.paths import ROOT

SOURCE = ROOT / "src" / "fedrt"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTATION = ROOT / "docs" / "notation.md"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()

LINK = re.compile(r"\]\((?!https?://|#)([^)\s#]+)")
CODE = re.compile(r"`([^`\n]+)`")
FUNCTION = re.compile(r"\[`([\w.]+)`\]\(\.\./(src/[\w/]+\.py)\)")
SOURCE_LINK = re.compile(r"\]\(\.\./(src/[\w/]+\.py)\)")
A_PATH = re.compile(r"(?:[\w-]+/)+[\w-]+\.(?:py|md|toml|json|sh)|[\w-]+\.py")
MODULE = re.compile(r"(fedrt(?:\.\w+)+)(?::(\w+))?(?:\(.*\))?")
EXAMPLES = re.compile(r"my_\w+\.py|signal\.py|random\.py|.*my_\w+/.*")
"""Names of files that a reader could have, not files of this repository."""


def words_of(page: Path) -> str:
    """The text of a page without its listings and notes."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def paths_of(text: str) -> list[str]:
    return [code for code in CODE.findall(text) if A_PATH.fullmatch(code)]


def exists(path: str) -> bool:
    """Whether a path is one of the repository, or of the package when written without src."""
    if any((base / path).is_file() for base in (ROOT, SOURCE, ROOT / "benchmarks")):
        return True
    return "/" not in path and any(SOURCE.rglob(path))


def names_in(path: Path) -> set[str]:
    """The functions and classes of a file, methods and fields as `Class.name`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(words_of(page)) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_text_exist(page):
    named = {path for path in paths_of(words_of(page)) if not EXAMPLES.fullmatch(path)}
    assert [path for path in sorted(named) if not exists(path)] == []


def file_of(module: str) -> tuple[Path, str] | None:
    """The file of a dotted name and what is left of the name; None for no module."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        stem = ROOT.joinpath("src", *parts[:count])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path, ".".join(parts[count:])
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_named_in_the_text_exist(page):
    for code in CODE.findall(words_of(page)):
        if found := MODULE.fullmatch(code):
            place = file_of(found[1])
            assert place is not None, code
            wanted = found[2] or place[1].partition(".")[0]
            assert not wanted or re.search(rf"\b{wanted}\b", place[0].read_text()), code


def test_a_file_that_is_not_there_is_noticed():
    assert paths_of("in `runs/nowhere.py`, `loop.py` and `a + b`") == ["runs/nowhere.py", "loop.py"]
    assert exists("loop.py")
    assert exists("runs/loop.py")
    assert not exists("runs/nowhere.py")
    assert not exists("nowhere.py")


def test_every_function_of_the_notation_exists():
    named = FUNCTION.findall(NOTATION.read_text())
    assert len(named) > 30
    missing = [(name, path) for name, path in named if name not in names_in(ROOT / path)]
    assert missing == []


def test_every_numbered_equation_is_found():
    equations = NOTATION.read_text().partition("## Symbols")[0]
    rows = [line.split(" | ") for line in equations.splitlines() if line.startswith("| ")]
    numbers = {int(number) for row in rows for number in re.findall(r"\((\d+)\)", row[0])}
    assert numbers == set(range(1, 28))
    assert [row[0] for row in rows[1:] if row[0] != "| P2" and not FUNCTION.search(row[-1])] == []


def test_every_symbol_is_in_its_file():
    symbols = NOTATION.read_text().partition("## Symbols")[2]
    rows = [line for line in symbols.splitlines() if SOURCE_LINK.search(line)]
    assert len(rows) > 40
    for row in rows:
        text = "".join((ROOT / path).read_text() for path in SOURCE_LINK.findall(row))
        missing = [name for name in CODE.findall(row) if not re.search(rf"\b{name}\b", text)]
        assert missing == [], row


@pytest.mark.parametrize(
    "word",
    [
        "global round",
        "edge round",
        "local step",
        "edge server",
        "cluster",
        "allowance",
        "consensus distance",
        "contraction",
        "slack",
        "pacing",
        "best-effort",
        "horizon",
        "hindsight bound",
        "gossip",
        "straggler",
    ],
)
def test_the_glossary_defines_a_word_once(word):
    defined = re.findall(rf"\*\*{word}[.,*]", GLOSSARY, flags=re.IGNORECASE)
    assert len(defined) == 1


def test_the_readme_defines_the_rounds_once():
    text = (ROOT / "README.md").read_text()
    for word in ("Edge server", "Cluster", "Local step", "Edge round", "Global round"):
        assert text.count(f"**{word}**: ") == 1
