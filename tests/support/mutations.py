"""Deterministic damage for fuzz tests: bytes, JSON and TOML files, whole folders.

Everything takes a `random.Random`, so a case is known by its seed: `random.Random(f"{seed} {n}")`.
`outcome_of` runs a command in this process and says how it ended; `assert_no_traceback` is what a
campaign holds every case to.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrt.cli import main
from support.junk import spots

WORDS = ("", "uniform", "fedrt", "\x00", "\ud800", "a\nb", "[/x]", "[bold]", "\x1b[2J", "NaN")
PATHS = ("../../escaped", "/etc/passwd", "/dev/zero", "..", ".", "a/b", "C:\\x", "a" * 5000)
CODE = ("support.canary:Sings", "json:loads", "no.such:Thing", "x:", ":x")
"""Import paths: a file must not get them imported (tests/support/canary.py is there to tell)."""
NUMBERS = (0, -1, 1, 2, 3, 10**6, 2**63, 10**400, 0.5, -0.0, 1e308, 5e-324, 1e-300)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))
DEEP = 100_000


def wrong_value(rng: random.Random) -> Any:
    """A value that few fields expect."""
    kinds: list[Any] = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.choice(NUMBERS),
        lambda: rng.choice(NOT_FINITE),
        lambda: rng.choice(WORDS),
        lambda: rng.choice(PATHS),
        lambda: rng.choice(CODE),
        lambda: [rng.choice(NUMBERS) for _ in range(rng.randrange(4))],
        lambda: {rng.choice(WORDS): rng.choice(NUMBERS)},
        lambda: [[]] * rng.choice((1, 1000)),
    ]
    return rng.choice(kinds)()


def mutated_value(rng: random.Random, data: Any) -> Any:
    """A copy of nested tables and lists with one to three spots replaced, removed or added."""
    data = json.loads(json.dumps(data))
    for _ in range(rng.randint(1, 3)):
        places = spots(data)
        if not places:
            return wrong_value(rng)
        *way, last = rng.choice(places)
        holder = data
        for key in way:
            holder = holder[key]
        action = rng.choice(("replace", "replace", "remove", "add", "near"))
        if action == "remove":
            del holder[last]
        elif action == "add" and isinstance(holder, dict):
            holder[rng.choice(WORDS + PATHS)] = wrong_value(rng)
        elif action == "add":
            holder.append(wrong_value(rng))
        elif action == "near" and type(holder[last]) in (int, float):
            holder[last] *= rng.choice((-1, 0, 2, 1e3, 1e300))
        elif action == "near" and isinstance(holder[last], list) and holder[last]:
            holder[last] = holder[last] * 2 if rng.random() < 0.5 else holder[last][:-1]
        else:
            holder[last] = wrong_value(rng)
    return data


def mutated_json(rng: random.Random, text: str) -> bytes:
    """A JSON file with wrong values, repeated keys, deep nesting or damaged bytes."""
    kind = rng.choice(("values", "values", "values", "bytes", "deep", "twice"))
    if kind == "bytes":
        return mutated_bytes(rng, text.encode())
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # it has been damaged before
        return mutated_bytes(rng, text.encode())
    if kind == "deep":
        nested = "[" * DEEP + "]" * DEEP
        if not isinstance(data, dict) or not data or rng.random() < 0.3:
            return nested.encode()
        key = rng.choice(list(data))
        return json.dumps(data | {key: "@"}).replace('"@"', nested, 1).encode()
    if kind == "twice" and isinstance(data, dict) and data:
        key = rng.choice(list(data))
        more = f"{{{json.dumps(key)}: {json.dumps(wrong_value(rng))},"
        return (more + json.dumps(data)[1:]).encode("utf-8", "surrogatepass")
    return json.dumps(mutated_value(rng, data), ensure_ascii=rng.random() < 0.9).encode(
        "utf-8", "surrogatepass"
    )


def mutated_toml(rng: random.Random, text: str) -> bytes:
    """A TOML file with lines changed, removed, repeated or moved, or damaged bytes."""
    if rng.random() < 0.2:
        return mutated_bytes(rng, text.encode())
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(lines))
        action = rng.choice(("value", "value", "value", "remove", "repeat", "move", "deep", "add"))
        key, equals, _ = lines[place].partition("=")
        if action == "value" and equals:
            lines[place] = f"{key}= {_toml(wrong_value(rng))}"
        elif action == "remove" and len(lines) > 1:
            del lines[place]
        elif action == "repeat":
            lines.insert(rng.randrange(len(lines)), lines[place])
        elif action == "move":
            lines.insert(rng.randrange(len(lines)), lines.pop(place))
        elif action == "deep" and equals:
            lines[place] = f"{key}= {'[' * DEEP}{']' * DEEP}"
        else:
            lines.insert(place, f"key{rng.randrange(10**6)} = {_toml(wrong_value(rng))}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    """The value as TOML; what it cannot hold stays as JSON has it."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    names = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "null": '"null"'}
    text = json.dumps(value)
    return names.get(text, text)


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes with bits flipped, cut, repeated, overwritten, or nothing left of them."""
    kind = rng.choice(("flip", "flip", "flip", "cut", "repeat", "overwrite", "empty", "noise"))
    if kind == "empty" or not data:
        return b""
    if kind == "noise":
        return rng.randbytes(rng.randrange(1, 200))
    place = rng.randrange(len(data))
    if kind == "cut":
        return data[:place]
    if kind == "repeat":
        return data[:place] + data[max(0, place - rng.randrange(1, 100)) :]
    if kind == "overwrite":
        length = rng.randrange(1, 32)
        return data[:place] + rng.randbytes(length) + data[place + length :]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def mutated_file(rng: random.Random, path: Path) -> None:
    """Damage one file in place, by what its name says it holds."""
    data = path.read_bytes()
    if path.suffix == ".json":
        data = mutated_json(rng, data.decode(errors="replace"))
    elif path.suffix == ".toml":
        data = mutated_toml(rng, data.decode(errors="replace"))
    else:
        data = mutated_bytes(rng, data)
    path.write_bytes(data)


def mutate_folder(rng: random.Random, folder: Path, outside: Path) -> str:
    """Damage a folder of results in one or two spots; what was done.

    `outside` is a folder that links lead to, with a file in it: nothing in it may ever change.
    """
    return ", ".join(_mutate_once(rng, folder, outside) for _ in range(rng.choice((1, 1, 1, 2))))


def _mutate_once(rng: random.Random, folder: Path, outside: Path) -> str:
    found = sorted(path for path in folder.rglob("*"))
    files = [path for path in found if path.is_file() and not path.is_symlink()]
    # Small files that say what ran are where most can be said wrongly.
    texts = [path for path in files if path.suffix in (".json", ".toml")]
    path = rng.choice(texts if texts and rng.random() < 0.6 else found)
    name = path.relative_to(folder)
    if path in files and rng.random() < 0.75:
        try:
            mutated_file(rng, path)
        except ValueError:  # damaged before: no text any more
            path.write_bytes(mutated_bytes(rng, path.read_bytes()))
        return f"{name} damaged"
    kind = rng.choice(("remove", "link", "folder", "copy", "new link", "pipe"))
    if kind == "copy":
        to = rng.choice(found).parent / rng.choice((path.name, "000009.npz", "run.json", "x.json"))
        if path in files and not os.path.lexists(to):
            shutil.copyfile(path, to)
        return f"{name} copied to {to.relative_to(folder)}"
    if kind == "new link":
        new = rng.choice((".lock", "records", "checkpoints", "page.html", "tuning.json", "x.svg"))
        path, name = folder / new, Path(new)
    _remove(path)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind in ("link", "new link"):
        target = rng.choice((outside, outside / "precious", Path("/dev/zero"), folder, path))
        path.symlink_to(target)
        return f"{name} made a link to {target}"
    return f"{name} removed" + ("" if kind == "remove" else f", now a {kind}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """None where it ended in an exception that nothing caught."""
    stdout: str
    stderr: str
    crash: str = ""


def outcome_of(*argv: object) -> Ended:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code, crash = None, ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in argv])
        except BaseException:
            crash = traceback.format_exc()
    return Ended(code, out.getvalue(), err.getvalue(), crash)


CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def assert_no_traceback(ended: Ended, case: str) -> None:
    """A command ended in an answer or in lines that a terminal can show, with its exit code."""
    assert not ended.crash, f"{case}:\n{ended.crash}"
    assert "Traceback" not in ended.stderr, f"{case}:\n{ended.stderr}"
    assert ended.code in (0, 1, 2, 3, 4), f"{case}: exit code {ended.code}"
    if ended.code:
        assert ended.stderr.strip(), f"{case}: exit code {ended.code} without a word"
    assert not CONTROLS.search(ended.stderr), f"{case}: {ended.stderr!r}"
