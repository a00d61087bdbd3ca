"""The map of the source: which folder may import which, and how much a folder or function holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support.paths import ROOT

from fedrt.cli import build_parser
from fedrt.cli.parser import Parser, with_options

SOURCE = ROOT / "src" / "fedrt"

ORDER = [
    {
        "errors",
        "units",
        "graph",
        "seeding",
        "arrays",
        "validation",
        "quantities",
        "settings",
        "messages",
        "registry",
    }
    | {"system"},
    {"scenario"},
    {"measures"},
    {"world"},
    {"plan", "rounds", "ledger"},
    {"cost"},
    {"control"},
    {"bound"},
    {"policies"},
    {"data"},
    {"learning"},
    {"distributed"},
    {"decision"},
    {"runs"},
    {"flower"},
    {"environment"},
    {"records"},
    {"callbacks"},
    {"studies"},
    {"bench"},
    {"devices"},
    {"testbed"},
    {"experiments"},
    {"report"},
    {"api"},
    {"cli"},
    {"__main__"},
]
"""Chapters from the first to the last: one may import those above it, never those below."""
HOMES = {
    "torch": {"learning", "distributed"},
    "ray": {"distributed"},
    "cvxpy": set(),
    "mlflow": {"callbacks"},
    "gymnasium": {"environment"},
    "flwr": {"flower"},
    "grpc": {"devices"},
    "google": {"devices"},
    "cryptography": {"devices"},
    "wandb": {"callbacks"},
    "matplotlib": {"report"},
    "playwright": set(),
    "numba": {"system", "learning"},
    "sklearn": {"data"},
}
MOST_FILES = 13
MANY_FILES = {"policies", "cli", "fedrt"}
"""Folders with an entry each: a policy, a command; the files at the top are chapters."""
MOST_LINES = 60
BUILD_COMMANDS = {
    *("report/page/cells.py", "report/page/collect.py", "records/directory.py"),
    *("api/folders.py", "api/training.py", "testbed/commands.py"),
}
"""Put commands together word by word: to be shown on the page, git's, and those of parties."""


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in files()}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path, *, late: bool = True) -> Iterator[str]:
    """Every module a file imports, except for types alone; with `late`, also in functions."""
    tree = ast.parse(path.read_text())
    left_out = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        or (not late and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES or node.module not in MODULES else str(node.module)


def test_imports_go_upwards_only():
    level = {part: i for i, parts in enumerate(ORDER) for part in parts}
    for path in files():
        part = part_of(path)
        for name in imports_of(path):
            pieces = name.split(".")
            if pieces[0] != "fedrt" or len(pieces) == 1:
                continue
            if part == "__init__":
                assert name == "fedrt.system.lazy", f"import fedrt loads {name}"
                continue
            assert pieces[1] in level, f"{path} imports {name}"
            assert level[pieces[1]] <= level[part], f"{path} imports {name}"


def test_heavy_libraries_stay_home():
    for path in files():
        for name in imports_of(path):
            library = name.split(".")[0]
            if library in HOMES:
                assert part_of(path) in HOMES[library], f"{path} imports {library}"


def test_every_part_is_on_the_map():
    known = set().union(*ORDER)
    for path in files():
        assert part_of(path) in known | {"__init__"}, f"{path} is not on the map"


def texts_of(path: Path, *, docstrings: bool = True) -> Iterator[str]:
    """Every string of a file, with {} where something is put in."""
    inner: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):  # outer nodes first
        if isinstance(node, ast.Expr) and not docstrings:
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner |= {id(each) for each in node.values}
            yield "".join(
                str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.value


def test_options_are_named_by_the_command_line_alone():
    """Elsewhere a message has the parameter in backticks; whole commands to type are no matter."""
    for path in files():
        if part_of(path) == "cli" or path.relative_to(SOURCE).as_posix() in BUILD_COMMANDS:
            continue
        for text in texts_of(path):
            left = re.sub(r"\b(fedrt [a-z]+|ray start|docker run) .*--[a-z].*", "", text)
            assert not re.search(r"(?<![\w-])--[a-z]", left), f"{path}: {text}"


def test_parameters_in_messages_are_options():
    build_parser()
    named = {
        word
        for path in files()
        if path.name != "reproduction.py"  # writes Markdown
        for text in texts_of(path, docstrings=False)
        for word in re.findall(r"`(\w+)`", text)
    }
    assert {"out", "settings", "vary"} <= named <= Parser.options.keys()
    said = with_options("`settings` x: must be; give another `out`, `allow_code` or `nothing`")
    assert said == "--set x: must be; give another --out, --allow-code or `nothing`"


def test_one_name_means_one_class():
    homes: dict[str, list[str]] = {}
    for path in files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module_of(path))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def assert_no_cycle(imports: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_module_imports_itself_in_a_circle():
    assert_no_cycle(
        {
            name: {other for other in imports_of(path) if other in MODULES} - {name}
            for name, path in MODULES.items()
        }
    )


def folder_of(name: str) -> str:
    path = MODULES[name]
    return str(path.parent.relative_to(SOURCE))


def test_no_folder_imports_itself_in_a_circle():
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        mine = found.setdefault(folder_of(name), set())
        if mine is found.get("."):
            continue  # the files at the top are chapters of their own
        mine |= {folder_of(other) for other in imports_of(path) if other in MODULES}
        mine -= {folder_of(name), "."}
    assert_no_cycle(found)


def test_a_folder_can_be_surveyed():
    for folder in {path.parent for path in files()}:
        count = len(list(folder.glob("*.py")))
        assert count <= MOST_FILES or folder.name in MANY_FILES, f"{folder} has {count} files"


def is_kernel(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("compiled" in ast.unparse(each) for each in node.decorator_list)


def test_a_function_fits_a_screen():
    for path in files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_kernel(node):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= MOST_LINES, f"{path}: {node.name} has {lines} lines"


def drawn(page: str) -> list[tuple[str, str]]:
    """The folders and files that a page's drawing of the source shows, in order.

    Each with the folder it stands in, by its indentation.
    """
    (drawing,) = re.findall(
        r"```(?:text)?\nsrc/fedrt/\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
    )
    found, above = [], {}
    for line in drawing.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for word in line.split():
            if not re.fullmatch(r"\w+(/|\.py)", word):
                break
            above[depth] = word
            found.append(("".join(above[each] for each in range(1, depth)), word))
    return found


def test_drawing_of_the_architecture_has_every_folder():
    folders = {path.parent.relative_to(SOURCE) for path in files()} - {Path()}
    shown = {Path(above + name) for above, name in drawn("docs/architecture.md") if "/" in name}
    assert shown == folders


def test_drawing_of_the_architecture_has_every_file_at_the_top():
    shown = {name for above, name in drawn("docs/architecture.md") if name.endswith(".py")}
    assert shown == {path.name for path in SOURCE.glob("[!_]*.py")}


def test_map_in_the_readme_has_every_chapter():
    shown = {name for _, name in drawn("README.md") if "/" in name}
    assert shown == {f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_chapters_are_drawn_in_their_order(page):
    level = {part: i for i, parts in enumerate(ORDER) for part in parts}
    top = [level[name.strip("/").removesuffix(".py")] for above, name in drawn(page) if not above]
    assert top == sorted(top)
