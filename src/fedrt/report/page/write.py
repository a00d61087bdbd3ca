"""Writes the page as one file: template, styles, scripts, charting library and data."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedrt.errors import InputError, reason
from fedrt.report.page.collect import collect
from fedrt.report.page.encode import page_json
from fedrt.system.files import write_whole

ASSETS = Path(__file__).parent / "assets"
LIBRARY = ASSETS / "vendor" / "echarts" / "echarts.min.js"
SCRIPTS = (
    *("data", "words", "look", "chart", "lines", "graph", "rounds", "heat", "devices"),
    *(
        "codecs",
        "measured",
        "testbed",
        "reproduced",
        "bound",
        "bench",
        "studies",
        "summary",
        "main",
    ),
)
MARK = "<!-- a FedRT page -->"
"""The mark by which a page of FedRT is recognised, which may be overwritten."""


def write_page(paths: Sequence[Path], out: Path) -> dict[str, Any]:
    """Write the page of the given folders; return its data."""
    data = collect(paths)
    check_out(out)
    data["figures"] = [_link(Path(figure), out.parent) for figure in data["figures"]]
    text = page_text(data["title"], page_json(data)).encode("utf-8", "replace")
    write_whole(out, lambda temporary: _fill(temporary, text))
    return data


def _fill(path: Path, text: bytes) -> None:
    path.write_bytes(text)


def check_out(out: Path) -> None:
    """Raise an error if the page cannot be written, or would overwrite something else."""
    try:
        if not out.parent.is_dir():
            raise InputError(f"{out}: cannot be written: {out.parent} is not a folder")
        if not os.path.lexists(out):
            return
        ours = out.is_file() and _is_ours(out)
    except (OSError, ValueError) as error:
        raise InputError(f"{out}: cannot be written: {reason(error)}") from None
    if not ours:
        raise InputError(f"{out}: exists already and is not a page of fedrt; give another `out`")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK.encode() in file.read(200)


def _link(figure: Path, folder: Path) -> dict[str, str]:
    """The name of a figure and its address relative to the page."""
    relative = os.path.relpath(figure.resolve(), folder.resolve())
    address = quote(os.fsencode(relative))
    return {"name": str(figure), "address": address}


def page_text(title: str, data: str, *, watch: str = "") -> str:
    """The text of the whole page. With `watch` it polls that address for its data."""
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    library, own = scripts()
    connect = "connect-src 'self'; " if watch else ""
    policy = (
        f"default-src 'none'; {connect}img-src data:; style-src 'unsafe-inline'; "
        f"script-src {_hash(library)} {_hash(own)}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "MARK": MARK,
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "WATCH": html.escape(watch),
        "DATA": data,
        "LIBRARY": library,
        "SCRIPT": own,
    }
    pieces = template.split("@@")
    # Odd pieces are names: whatever the parts hold, nothing in them is replaced again.
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


@cache
def scripts() -> tuple[str, str]:
    """The charting library and our own scripts, as included in the page."""
    own = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return LIBRARY.read_text(encoding="utf-8"), f'(() => {{\n"use strict";\n{own}\n}})();\n'


def _hash(script: str) -> str:
    """The hash of a script for the page's content security policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
