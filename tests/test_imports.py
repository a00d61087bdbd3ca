"""The import map: a folder may import those above it, never those below; heavy ones have a home."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "fedrt"

ORDER = [
    {"errors", "units", "graph", "seeding", "signals", "checks", "frozen", "quantities"}
    | {"files", "inputs", "plugins", "torn", "children", "own_source", "blame", "extras"},
    {"scenario"},
    {"world"},
    {"plan", "rounds", "ledger"},
    {"cost"},
    {"control"},
    {"policies"},
    {"learning"},
    {"distributed"},
    {"decision"},
    {"runs"},
    {"experiments"},
    {"report"},
    {"cli"},
    {"__main__"},
]
HOMES = {
    "torch": {"learning", "distributed"},
    "ray": {"distributed"},
    "cvxpy": set(),
    "matplotlib": {"report"},
    "plotly": {"report"},
    "playwright": set(),
    "numba": {"control", "learning"},
    "sklearn": {"learning"},
}


def imports_of(path: Path) -> set[str]:
    """Every module a file imports, anywhere in it, except for types alone."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_go_upwards_only():
    level = {part: i for i, parts in enumerate(ORDER) for part in parts}
    for path in SOURCE.rglob("*.py"):
        part = part_of(path)
        if part == "__init__":
            assert not {name for name in imports_of(path) if name.startswith("fedrt")}
            continue
        for name in imports_of(path):
            pieces = name.split(".")
            if pieces[0] == "fedrt" and len(pieces) > 1 and pieces[1] in level:
                assert level[pieces[1]] <= level[part], f"{path} imports {name}"


def test_heavy_libraries_stay_home():
    for path in SOURCE.rglob("*.py"):
        for name in imports_of(path):
            library = name.split(".")[0]
            if library in HOMES:
                assert part_of(path) in HOMES[library], f"{path} imports {library}"


def test_every_part_is_on_the_map():
    known = set().union(*ORDER)
    for path in SOURCE.rglob("*.py"):
        assert part_of(path) in known | {"__init__"}, f"{path} is not on the map"
