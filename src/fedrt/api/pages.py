"""`fedrt.report` and `fedrt.watch`: the HTML page of results, and the same page served live."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedrt.api.asked import folder_of
from fedrt.api.folders import Place
from fedrt.api.results import Page
from fedrt.api.session import note
from fedrt.errors import InputError
from fedrt.report.page.collect import collect
from fedrt.report.page.write import write_page
from fedrt.report.serve import Server
from fedrt.validation import Whole

PORT = 8765


def report(*runs: Any, out: Place | None = None) -> Page:
    """Write one self-contained HTML page that shows runs: `fedrt report`.

    `runs` are results, or folders that a command or function has saved. The page is written to
    `out`, by default into the folder of a single one, else to page.html.
    """
    paths = [folder_of(each) for each in runs]
    if not paths:
        raise InputError("`runs`: give at least one folder of results")
    path = Path(out) if out else (paths[0] if len(paths) == 1 else Path()) / "page.html"
    for line in write_page(paths, path)["problems"]:
        note(f"note: {line}")
    return Page(path)


def watch(*runs: Any, host: str = "127.0.0.1", port: int | str | None = None) -> Server:
    """A server of the page of runs that may still train: `fedrt watch`.

    `with fedrt.watch(run) as server: server.serve_forever()`, and look at `server.address`. With
    `port` 0 any free one is taken.
    """
    problems: list[str] = []
    given: object = PORT if port is None else port
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given)
    number = Whole(0, 65535).read(given, "`port`", problems)
    if number is None:
        raise InputError(problems)
    paths = list(_folders(runs))
    collect(paths)  # complains about what is no run before anything is served
    return Server(paths, host, number)


def _folders(runs: Iterable[Any]) -> Iterable[Path]:
    return (folder_of(each) for each in runs)
