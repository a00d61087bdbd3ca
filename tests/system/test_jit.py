"""Compiled code is kept by its source: a change in any file that it is made of compiles it anew."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from support.children import environment


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


def run(folder: Path) -> str:
    command = [sys.executable, "-c", "import kernels.outer"]
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
