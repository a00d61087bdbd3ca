"""The notebooks of examples/notebooks, and the pages of the site that show them with their outputs.

    python tools/notebooks.py                          # writes each .ipynb from the .py beside it
    python tools/notebooks.py --pages build/notebooks  # runs them and writes a page for each

A script's docstring is the first text: its title, then what it is about. `# %%` begins a cell of
code, `# %% [markdown]` one of text, in comments. Whatever the last line of a cell gives is shown.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
DPI = 80
PROCESSES = 2


def scripts() -> list[Path]:
    """The scripts that notebooks are made of."""
    return sorted(FOLDER.glob("*.py"))


def cells_of(script: str) -> list[tuple[str, str]]:
    """The cells of a script, each as `markdown` or `code` with its text."""
    found = re.match(r'"""(.*?)"""\n', script, re.DOTALL)
    assert found is not None, "the script has no docstring"
    title, _, about = found[1].strip().partition("\n")
    cells = [("markdown", f"# {title.rstrip('.')}\n{about}".strip())]
    first, *parts = CELL.split(script[found.end() :])
    kinds = ["code", *("markdown" if mark else "code" for mark in parts[::2])]
    for kind, text in zip(kinds, [first, *parts[1::2]], strict=True):
        shown = re.sub(r"^# ?", "", text, flags=re.MULTILINE) if kind == "markdown" else text
        if shown.strip():
            cells.append((kind, shown.strip()))
    return cells


def notebook(script: str) -> str:
    """The text of a notebook's file, without outputs."""
    cells = []
    for number, (kind, text) in enumerate(cells_of(script)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell | {"source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1) + "\n"


def page(script: Path, out: Path) -> str:
    """The page of a notebook, which is run in the current folder; images are written to `out`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    parts, images = [], 0
    for number, (kind, text) in enumerate(cells_of(script.read_text(encoding="utf-8"))):
        if kind == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        printed, value = run_cell(text, f"<ipython-input-{number}>", names)
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```")
        if hasattr(value, "savefig"):
            images += 1
            name = f"{script.stem}-{images}.png"
            value.savefig(out / name, dpi=DPI)
            parts.append(f"![What the cell draws]({name})")
        elif value is not None:
            parts.append(_shown(value))
    source = f"../files/examples/notebooks/{script.stem}.ipynb"
    parts.insert(1, f"*A notebook, run as this site was built: [{script.stem}.ipynb]({source}).*")
    return "\n\n".join(parts) + "\n"


def run_cell(text: str, name: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and what its last line gives."""
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    return printed.getvalue(), value


def _shown(value: Any) -> str:
    """A value as notebooks show it, by its own HTML or as text."""
    if hasattr(value, "_repr_html_"):
        text = re.sub(r"<style.*?</style>", "", value._repr_html_(), flags=re.DOTALL)
        text = re.sub(
            r'<table(?: border="\d")? class="dataframe">', "<table>", text
        )  # as elsewhere
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return '<div class="notebook-output">\n' + "\n".join(lines) + "\n</div>"
    return f"```text\n{value!r}\n```"


def write_page(script: Path, out: Path) -> str | None:
    """Run a notebook in a folder of its own and write its page; what went wrong, if anything."""
    import matplotlib as mpl

    mpl.use("Agg")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            text = page(script, out)
        except Exception:
            return f"{script.name}: does not run\n{traceback.format_exc()}"
        finally:
            os.chdir(before)
    (out / f"{script.stem}.md").write_text(text, encoding="utf-8")
    return None


def write_pages(out: Path) -> int:
    """Write the pages of all notebooks, two at a time; the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        wrong = [*filter(None, pool.map(write_page, scripts(), repeat(out)))]
    print("\n".join(wrong) or f"{len(scripts())} notebooks ran")
    return 1 if wrong else 0


def main() -> int:
    """Write notebooks, or pages; the exit code."""
    parser = argparse.ArgumentParser(description="write the notebooks, or their pages")
    parser.add_argument("--pages", type=Path, help="where the site's pages are to be written")
    pages = parser.parse_args().pages
    if pages is not None:
        return write_pages(pages.resolve())
    for script in scripts():
        text = notebook(script.read_text(encoding="utf-8"))
        script.with_suffix(".ipynb").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
