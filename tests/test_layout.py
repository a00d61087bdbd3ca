"""The tests' own order: folders as in the source, helpers in one place, files one can survey."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.paths import ROOT, TESTS

MOST_LINES = 400
SOURCE = ROOT / "src" / "fedrt"
OF_THE_TESTS = {"reference", "support", "without_mkldnn"}
"""Folders with no tests in them: slow twins, helpers, and what another processor is made of."""
BESIDE = {"tools", "benchmarks"}
"""Folders beside the source that have tests."""
FILES = sorted(TESTS.rglob("*.py"))


def place_of(path: Path) -> str:
    return str(path.relative_to(TESTS))


def changes_of_the_path(text: str) -> list[str]:
    """The statements that change `sys.path`, also in code that a test hands to another process."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called.startswith(("sys.path.", "site.addsitedir")):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            if any(ast.unparse(target).startswith("sys.path") for target in targets):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value)
            except (SyntaxError, ValueError):
                continue
            if any(isinstance(each, ast.Attribute) for each in ast.walk(inner)):
                found += changes_of_the_path(node.value)
    return found


def test_a_file_of_tests_can_be_surveyed():
    for path in FILES:
        lines = len(path.read_text().splitlines())
        assert lines <= MOST_LINES, f"{place_of(path)} has {lines} lines"


def test_nothing_changes_where_modules_are_looked_for():
    """pytest's own setting does (`pythonpath` in pyproject.toml), and PYTHONPATH in children."""
    for path in FILES:
        if path != Path(__file__):
            assert changes_of_the_path(path.read_text()) == [], place_of(path)


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.path.insert(0, 'x')",
        "sys.path += ['x']",
        "sys.path[:] = []",
        "CODE = 'import sys; sys.path.append(1)'",
        "def f():\n    sys.path = []",
    ],
)
def test_a_change_of_the_path_is_noticed(text):
    assert changes_of_the_path(text) != []
    assert changes_of_the_path("found = [*sys.path]\nassert sys.path[-1] == 'x'") == []


def test_helpers_are_in_support_alone():
    astray = [
        place_of(path)
        for path in FILES
        if path.relative_to(TESTS).parts[0] not in OF_THE_TESTS
        and not path.name.startswith("test_")
        and path.name != "conftest.py"
    ]
    assert astray == []
    assert list((TESTS / "support").glob("test_*.py")) == []


def test_no_test_takes_from_another_test():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                last = str(node.module).split(".")[-1]
                assert not last.startswith("test_"), f"{place_of(path)} imports {node.module}"


def test_folders_are_those_of_the_source():
    for path in FILES:
        parts = path.relative_to(TESTS).parent.parts
        if parts and parts[0] not in OF_THE_TESTS | BESIDE:
            assert SOURCE.joinpath(*parts).is_dir(), f"src/fedrt has no {'/'.join(parts)}"
