"""Digests of the source of users' own code, so that changes are noticed."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

from fedrt.system.plugins import PACKAGE, Offer, load_plugin

INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed libraries: of code there only the files that are named count."""
PARSING = Lock()
"""Python 3.11 counts how deep a syntax tree is for all threads together, and fails if two parse."""


def own_source(path: str, field: str) -> tuple[str, tuple[str, ...]] | None:
    """A digest of the source behind an import path, and the names of its files.

    These are the module that is named, the one that defines the class, and what they import from
    the same folder. None for code without files, and for FedRT's own.
    """
    plugin = load_plugin(path, field)
    if isinstance(plugin, Offer):
        return _object_source(plugin.thing)
    modules = [path.partition(":")[0], getattr(plugin, "__module__", None)]
    files: dict[Path, None] = {}
    for name in modules:
        file = getattr(sys.modules.get(str(name)), "__file__", None)
        if file is not None and Path(file).suffix == ".py":
            root = Path(file).resolve().parents[str(name).count(".") + _is_package(file)]
            _follow(Path(file).resolve(), root, files)
    if not files:
        return None
    found = blake2b(digest_size=16)
    for file in sorted(files):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest(), tuple(sorted(file.name for file in files))


def _object_source(thing: Any) -> tuple[str, tuple[str, ...]] | None:
    """A digest of the source of an object that Python code has given; None if it is unknown.

    Of an object that no class or function is, that of its class, with the values of a dataclass.
    """
    own = thing.func if isinstance(thing, functools.partial) else thing
    is_code = inspect.isclass(own) or inspect.isroutine(own)
    try:
        text = inspect.getsource(own if is_code else type(own))
    except (OSError, TypeError):
        return None
    if thing is not own or is_dataclass(thing):
        text += repr(thing)
    return blake2b(text.encode(), digest_size=16).hexdigest(), ("Python",)


def _is_package(file: str) -> bool:
    return Path(file).stem == "__init__"


def _follow(file: Path, root: Path, files: dict[Path, None]) -> None:
    """Add a file and, recursively, the files it imports from the same folder or below."""
    if file in files or PACKAGE in file.parents:
        return
    files[file] = None
    if any(name in root.parts for name in INSTALLED):
        return
    try:
        with PARSING:
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for name in _imported(tree, file.relative_to(root)):
        for place in (root / f"{name}.py", root / name / "__init__.py"):
            if place.is_file():
                _follow(place.resolve(), root, files)


def _imported(tree: ast.AST, file: Path) -> Iterator[str]:
    """The modules that a file imports, as relative paths without endings."""
    package = ".".join(file.parent.parts)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = importlib.util.resolve_name("." * node.level + base, package)
                except ImportError:
                    continue
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
