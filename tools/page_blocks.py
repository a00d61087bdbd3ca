"""Run the code blocks of documentation pages, in order, as a reader would by copy and paste.

    python tools/page_blocks.py [--as-shown] docs/tutorial/*.md

The pages that are given share one folder that is empty but for a copy of examples/. A block is
`bash`, `python`, `toml` or `json`, or `text`, which is not run. Python blocks of a page share their
names; a Python or TOML block whose first line is a comment with a file's name is that file; any
other TOML block is checked as a part of the scenario `quickstart`. Comments right before a block
say more, one on each line:

    <!-- not run: REASON -->      one of `REASONS`, perhaps with more behind a semicolon
    <!-- long: REASON -->         only with --as-shown
    <!-- small: OPTIONS -->       added to its `fedrt` commands, or `"old" -> "new"` in its text,
                                  unless with --as-shown
    <!-- first: CODE -->          run before it, in the block's own language
    <!-- file: NAME -->           the file that the block is
    <!-- party -->                of a TOML block: settings of a party, which a command checks later
    <!-- fails: CODE -->          the exit code with which its last command must end
    <!-- output -->               of a text block: what the block before it prints; a line `...`
                                  stands for any others
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
REASONS = ("installs", "needs root", "several machines", "a GPU", "data sets")
LANGUAGES = ("bash", "python", "toml", "json", "text")
BLOCK = re.compile(
    r"((?:^<!--(?:(?!-->).)*-->\n)*)^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
MARK = re.compile(
    r"<!-- (not run|long|small|first|file|party|fails|output)(?::\s(.*?))?\s?-->", re.DOTALL
)
WIDTH = "100"
"""Columns of the terminal whose output the pages show."""
NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
WITH_SETTINGS = ("run", "compare", "estimate", "sweep", "size", "front", "bound", "bench")
"""The commands of `fedrt` to which options that make them small are added."""
SHELL = re.compile(r"[|&;<>()$`*?\[\]{}~!]")
"""Characters for which a command is left to bash."""


@dataclass(frozen=True)
class Block:
    """A code block, where it stands and what its comments say."""

    page: str
    line: int
    language: str
    code: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language != "text" and "not run" not in self.marks

    @property
    def file(self) -> str | None:
        """The file that the block is, if it is one."""
        found = NAMED.match(self.code)
        return self.marks.get("file") or (found[1] if found else None)


class BlockError(Exception):
    """A block that does not run as it stands on its page."""


def read_page(text: str, page: str = "page") -> tuple[list[Block], list[str]]:
    """The blocks of a page, and a line for everything that is wrong with them."""
    found, wrong = [], []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        marks = {mark[1]: (mark[2] or "").strip() for mark in MARK.finditer(match[1])}
        block = Block(page, line, match[2].strip(), match[3], marks)
        if block.language not in LANGUAGES:
            wrong.append(f"{block.where}: {block.language!r} is none of {', '.join(LANGUAGES)}")
        if marks.get("not run", REASONS[0]).partition(";")[0] not in REASONS:
            wrong.append(f"{block.where}: not run: must be one of {', '.join(REASONS)}")
        found.append(block)
    fences = len(re.findall(r"^\s*```", text, flags=re.MULTILINE))
    if fences != 2 * len(found):
        wrong.append(f"{page}: {fences} lines begin or end a block, of {len(found)} blocks")
    return found, wrong


class Reader:
    """One who goes through pages in a folder and runs what they show."""

    def __init__(self, folder: Path, *, as_shown: bool) -> None:
        self.folder, self.as_shown = folder, as_shown
        self.names: dict[str, Any] = {}
        self.printed = ""
        self.ran = 0
        self.problems: list[str] = []
        """Outputs that are not as they are shown; whatever else is wrong ends it at once."""

    def go_through(self, blocks: list[Block]) -> None:
        """Run the blocks of one page."""
        self.names = {"__name__": "__main__"}
        for block in blocks:
            if block.language == "text":
                if "output" in block.marks and self.printed:
                    self.problems += _differs(block, self.printed)
                continue
            left_out = not block.runs or ("long" in block.marks and not self.as_shown)
            self.printed = "" if left_out else self._run(block)
            if not self.as_shown and "small" in block.marks:
                self.printed = ""  # not what the page shows

    def _run(self, block: Block) -> str:
        """Run one block; what it prints."""
        small = "" if self.as_shown else block.marks.get("small", "")
        if found := re.fullmatch(r'"(.*)" -> "(.*)"', small, flags=re.DOTALL):
            if found[1] not in block.code:
                raise BlockError(f"{block.where}: has no {found[1]!r}")
            block, small = replace(block, code=block.code.replace(found[1], found[2])), ""
        out, err = io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                getattr(self, f"_{block.language}")(block, small)
        except BaseException as error:
            said = f"{out.getvalue()}{err.getvalue()}"
            raise BlockError(f"{block.where}: {type(error).__name__}: {error}\n{said}") from error
        self.ran += 1
        return err.getvalue() if "fails" in block.marks else out.getvalue()

    def _python(self, block: Block, small: str) -> None:
        if block.file:
            self._write(block)
            runpy.run_path(str(self.folder / block.file))
            return
        first = block.marks.get("first", "")
        exec(compile(first, f"{block.where}, before it", "exec"), self.names)
        exec(compile(block.code, block.where, "exec"), self.names)

    def _toml(self, block: Block, small: str) -> None:
        import fedrt

        if block.file:
            self._write(block)
            if "party" not in block.marks:
                fedrt.check(self.folder / block.file)
            return
        part = self.folder / "part.toml"
        first = block.marks.get("first", "")
        part.write_text(f'extends = "quickstart"\n{first}\n{block.code}', encoding="utf-8")
        fedrt.check(part)

    def _json(self, block: Block, small: str) -> None:
        json.loads(block.code)
        if block.file:
            self._write(block)

    def _write(self, block: Block) -> None:
        assert block.file is not None
        path = self.folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")
        sys.modules.pop(path.stem, None)  # an earlier page may have had one of the name

    def _bash(self, block: Block, small: str) -> None:
        wanted = int(block.marks.get("fails", 0))
        commands = [*_commands(block.marks.get("first", "")), *_commands(block.code)]
        for i, command in enumerate(commands):
            code = self._command(command, small)
            if code != (wanted if i == len(commands) - 1 else 0):
                raise BlockError(f"exit code {code}: {command}")

    def _command(self, command: str, small: str) -> int:
        """The exit code of a command; `fedrt` itself runs in this process, which is quicker."""
        if command.startswith("fedrt ") and not SHELL.search(command):
            from fedrt.cli import main

            words = shlex.split(command)[1:]
            return main([*words, *(shlex.split(small) if words[0] in WITH_SETTINGS else [])])
        path = f"{self._programs()}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path}
        done = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
        )
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return done.returncode

    def _programs(self) -> Path:
        """A folder with `fedrt` and `python` of this environment."""
        folder = self.folder / ".programs"
        if not folder.exists():
            folder.mkdir()
            for name, words in (("fedrt", '-m fedrt "$@"'), ("python", '"$@"')):
                program = folder / name
                program.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}\n")
                program.chmod(0o755)
        return folder


def _commands(code: str) -> Iterator[str]:
    """The commands of a shell block, each on one line and without its comment."""
    for line in code.replace("\\\n", " ").splitlines():
        if command := re.sub(r"(^|\s)#.*$", "", line).strip():
            yield re.sub(r"\s+", " ", command) if "'" not in command else command


def _differs(block: Block, printed: str) -> list[str]:
    """What was printed, if a text block shows something else."""
    lines = printed.strip("\n").splitlines()
    parts: list[list[str]] = [[]]
    for line in block.code.strip("\n").splitlines():
        if line.strip() == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    if _fits(parts, lines):
        return []
    return [f"{block.where}: is not what is printed:\n" + "\n".join(lines)]


def _fits(parts: list[list[str]], lines: list[str]) -> bool:
    """Whether lines begin with the first part, end with the last and have all others in between."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return _alike(first, lines)
    if not _alike(first, lines[: len(first)]):
        return False
    place, end = len(first), len(lines) - len(last)
    for part in parts[1:-1]:
        while place + len(part) <= end and not _alike(part, lines[place : place + len(part)]):
            place += 1
        place += len(part)
    return place <= end and _alike(last, lines[end:])


def _alike(shown: list[str], printed: list[str]) -> bool:
    """Whether lines are the same but for spaces and, by one, the last digits of numbers.

    Sums are rounded a little differently on other processors.
    """
    if len(shown) != len(printed):
        return False
    for ours, theirs in zip(map(_pieces, shown), map(_pieces, printed), strict=True):
        if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
            return False
        for a, b in zip(ours[1::2], theirs[1::2], strict=True):
            unit = 10.0 ** -len(a.partition(".")[2])
            if abs(float(a) - float(b)) > (1.5 * unit if "." in a else 0):
                return False
    return True


def _pieces(line: str) -> list[str]:
    """The texts of a line without spaces, and the numbers between them."""
    return re.split(r"(\d+(?:\.\d+)?)", re.sub(r"\s+", "", line))


def main() -> int:
    """Run the blocks of the pages; the exit code."""
    parser = argparse.ArgumentParser(description="run the code blocks of documentation pages")
    parser.add_argument("--as-shown", action="store_true", help="in full, long ones too")
    parser.add_argument("pages", type=Path, nargs="+")
    args = parser.parse_args()
    read = [read_page(page.read_text(encoding="utf-8"), str(page)) for page in args.pages]
    blocks = [found for found, _ in read]
    if wrong := [line for _, lines in read for line in lines]:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    before = Path.cwd()
    os.environ["COLUMNS"] = WIDTH
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(EXAMPLES, Path(folder) / "examples")
        os.chdir(folder)
        sys.path.insert(0, folder)
        reader = Reader(Path(folder), as_shown=args.as_shown)
        try:
            for page in blocks:
                reader.go_through(page)
        except BlockError as error:
            reader.problems.append(str(error))
        finally:
            os.chdir(before)
    if reader.problems:
        print("\n".join(reader.problems), file=sys.stderr)
        return 1
    code = [block for page in blocks for block in page if block.language != "text"]
    print(f"{reader.ran} of {len(code)} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
