"""Where results are saved, and how they are resumed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fedrt.errors import InputError, reason
from fedrt.records.directory import asks_for_code, code_in
from fedrt.records.overwrite import remove_results
from fedrt.system.files import TakenError, free_name
from fedrt.system.plugins import PYTHON
from fedrt.validation import shown

T = TypeVar("T")

Place = str | os.PathLike[str]
"""A file or a folder."""


def in_folder(
    command: str,
    scenario: str,
    make: Callable[[Path], T],
    out: Place | None,
    overwrite: bool,
) -> T:
    """The result of `make` for the folder to save in: the given one, or the next in runs/.

    `make` makes the folder. Where another process was quicker, the next number is taken. With
    `overwrite` a folder of fedrt's own that has the given name goes first.
    """
    if out is not None:
        given = os.fspath(out)
        try:
            taken = os.path.lexists(given)
        except ValueError as error:
            raise InputError(f"`out` {shown(given)}: cannot be made: {reason(error)}") from None
        if taken and not overwrite:
            raise InputError(
                f"{given}: exists already; `overwrite` replaces it, or give another `out`"
            )
        if taken:
            remove_results(Path(given))
        return make(Path(given))
    if overwrite:
        raise InputError("`overwrite`: is for a folder that `out` names")
    while True:
        path = free_name(Path("runs"), f"{command}-{scenario.replace('/', '-')}")
        try:
            return make(path)
        except TakenError as error:
            if error.path != path:
                raise


def again(command: str, path: Path) -> str:
    """The command that resumes a run or a study, with permission for code where it is needed."""
    if needs_objects(path):
        return f"fedrt.{command}(resume={str(path)!r}, ...), with the same objects"
    code = ["--allow-code"] if asks_for_code(path) else []
    return shlex.join(["fedrt", command, "--resume", str(path), *code])


def needs_objects(path: Path) -> bool:
    """Whether the folder's run or study is made from objects of Python code."""
    return any(re.search(rf"\b{PYTHON}:", text) for text in code_in(path))


def refuse_given(parameter: str, place: str, given: Sequence[str]) -> None:
    """Raise an error about what may not be given beside a parameter such as `resume`."""
    if given:
        names = ", ".join(f"`{name}`" for name in given)
        raise InputError(f"`{parameter}`: takes {place}, not {names}")
