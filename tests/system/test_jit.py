"""Compiled code is kept by its source: a change in any file that it is made of compiles it anew."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from support.children import environment
from support.paths import ROOT


def write(folder: Path, factor: int, name: str = "Pair") -> None:
    """Three modules of kernels, each of which calls the next one's; all files keep their dates."""
    (folder / "innermost.py").write_text(
        textwrap.dedent(f"""
        from fedrt.system.jit import compiled

        @compiled()
        def innermost(x):
            return x * {factor}
        """)
    )
    (folder / "inner.py").write_text(
        textwrap.dedent(f"""
        from typing import NamedTuple
        from fedrt.system.jit import compiled
        from kernels.innermost import innermost

        class {name}(NamedTuple):
            x: int

        Given = {name}

        @compiled()
        def inner(pair):
            return innermost(pair.x)
        """)
    )
    (folder / "outer.py").write_text(
        textwrap.dedent("""
        from fedrt.system.jit import compiled
        from kernels.inner import Given, inner

        @compiled()
        def outer(pair):
            return inner(pair) + 1

        if __name__ != "__main__":
            print(outer(Given(5)), sum(outer.stats.cache_hits.values()))
        """)
    )
    (folder / "__init__.py").write_text("")
    for file in folder.glob("*.py"):
        os.utime(file, (1_000_000_000, 1_000_000_000))


def run(folder: Path, before: str = "") -> str:
    command = [sys.executable, "-c", f"{before}import kernels.outer"]
    # Compiled modules would hide a change that keeps a file's date and size.
    variables = environment(folder.parent, PYTHONDONTWRITEBYTECODE="1")
    found = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_a_change_in_a_file_that_is_compiled_in_is_noticed(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    write(folder, 2)
    assert run(folder) == "11 0"
    assert run(folder) == "11 1"  # from the cache
    write(folder, 3)
    assert run(folder) == "16 0"


def test_what_an_older_source_left_may_name_classes_that_are_no_more(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    write(folder, 2)
    assert run(folder) == "11 0"
    write(folder, 2, "Couple")
    assert run(folder) == "11 0"
    assert run(folder) == "11 1"


def test_without_a_folder_for_a_cache_every_process_compiles(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    write(folder, 2)
    before = "from numba.core.caching import CacheImpl as Kept\n"
    before += "Kept._locator_classes = []\n"
    assert [run(folder, before) for _ in range(2)] == ["11 0", "11 0"]
    assert not [path for path in folder.rglob("*") if path.suffix != ".py"]


def matrix_products(code: str) -> list[str]:
    """Products of matrices in the compiled functions of a file."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef) and any(
            re.search("compiled|njit", ast.unparse(each)) for each in node.decorator_list
        ):
            for inner in ast.walk(node):
                product = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult)
                called = isinstance(inner, ast.Attribute) and inner.attr in (
                    "dot",
                    "vdot",
                    "linalg",
                )
                if product or called:
                    found.append(f"{node.name}: {ast.unparse(inner)}")
    return found


def test_compiled_functions_need_no_scipy():
    """Numba takes products of matrices from scipy, which whoever installs FedRT need not have."""
    source = ROOT / "src" / "fedrt"
    assert [
        line for path in source.rglob("*.py") for line in matrix_products(path.read_text())
    ] == []
    assert matrix_products("@compiled()\ndef f(a, b):\n    return a @ b\n") == ["f: a @ b"]
    assert matrix_products("def f(a, b):\n    return a @ b\n") == []
