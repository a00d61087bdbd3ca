"""Compiled code is kept by its source: a change in any file that it is made of compiles it anew."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from support.children import environment


def write(folder: Path, factor: int) -> None:
    """Two modules of kernels, one of which calls the other's; both files keep their dates."""
    (folder / "inner.py").write_text(
        textwrap.dedent(f"""
        from fedrt.system.jit import compiled

        @compiled()
        def inner(x):
            return x * {factor}
        """)
    )
    (folder / "outer.py").write_text(
        textwrap.dedent("""
        from fedrt.system.jit import compiled
        from kernels.inner import inner

        @compiled()
        def outer(x):
            return inner(x) + 1

        if __name__ != "__main__":
            print(outer(5), sum(outer.stats.cache_hits.values()))
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
