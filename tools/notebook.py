"""Write examples/notebook.ipynb from the cells of examples/notebook.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def notebook(script: str) -> dict[str, Any]:
    """The notebook of a script: its docstring as text, and a cell for each part between `# %%`."""
    found = re.match(r'"""(.*?)"""\n', script, re.DOTALL)
    assert found is not None, "the script has no docstring"
    cells = [_cell("markdown", 0, found[1].strip())]
    parts = re.split(r"^# %%\n", script[found.end() :], flags=re.MULTILINE)
    cells += [_cell("code", i, part.strip()) for i, part in enumerate(parts, 1)]
    cells[3]["source"].append("\nstudy")  # shows itself
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, number: int, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": text.splitlines(keepends=True)}


def text() -> str:
    """The text of the notebook's file."""
    made = notebook((EXAMPLES / "notebook.py").read_text(encoding="utf-8"))
    return json.dumps(made, indent=1) + "\n"


if __name__ == "__main__":
    (EXAMPLES / "notebook.ipynb").write_text(text(), encoding="utf-8")
