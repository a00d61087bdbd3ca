"""Every figure in README.md and docs/ as the files that hold it have it.

    python tools/figures.py    # writes the pages anew; a test holds them equal

A figure is a number with a decimal point, or one that a unit follows: %, s, h, J, MB, points, times
and the like (`UNIT`). No figures are numbers in code, headings, links and comments, versions, and
settings (`SETTINGS`). A page says of each figure where it comes from:

- It stands in a block from `<!-- made: NAME -->` to `<!-- /made -->` (`figure_blocks.py`).
- A note right after its paragraph, list item or table has it:
  `<!-- figures: 4.21 = table("fmnist-iid", "fedrt").time_h; 8.9 = devices_cpu.time_ratio -->`,
  expressions over the names in `figure_sources.py`, in the unit that the text shows. A quoted text
  instead of an expression says why that figure is typed by hand. A number that stands there twice
  for two things has two entries, in the order of the text.
- `<!-- by hand: REASON -->` after it: what no other note has was typed by hand. Under a heading,
  `<!-- by hand, whole section: REASON -->` holds for all that follows up to the next heading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import figure_sources
from figure_blocks import BLOCKS

from fedrt.cli import guarded
from fedrt.errors import InputError, reason
from fedrt.system.files import write_text

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"(?<![\w.+^/-])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w^]|\.\d|,\d{3})")
UNIT = re.compile(
    r"\s?(?:%|(?:s|ms|h|J|W|min|minutes?|seconds?|microseconds|hours?|joules?|points?|times|x(?!\s?\d|\s?\()"
    r"|[KMGT]i?B|[MGT]?FLOP|[MGT]?FLOP/s|[MG]bit/s|[MG]?Hz)(?![\w-]))"
)
NEXT = re.compile(r"\s*(?:,|and|to|or|/|against|instead of)\s+(?=[+-]?\d)|\s*[,/]\s*(?=[+-]?\d)")
VERSION = re.compile(r"\b(?:torch|Python|pfl|Flower|ECharts|Ray|Chromium|CUDA|Apache|TLS)[\s-]$")
SETTINGS = re.compile(
    r"\b(?:0\.5|1|1\.25|1\.35|1\.5|2|4)(?:,? (?:and|or) (?:1\.5|2))?\sJ\b(?! (?:more|less|over))"
    r"|\bp = [\d.]+(?:, [\d.]+)*|\b(?:kappa|psi|scale|correlation|learning rate)(?: =)? [\d.]+"
    r"|\b0\.1\s+to\s+10\s+Mbit/s|\b1\s+to\s+10\s+Mbit/s|\b2\.8\sGHz\b"
)
"""Budgets, limits and speeds that scenarios set, and the machine's clock."""
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+")
CUT = re.compile(
    r"[ ]*<!--\s*(?P<kind>figures|by hand, whole section|by hand):(?P<said>.*?)-->"
    r"|(?P<other><!--.*?-->)|(?P<head>^\#+ [^\n]*$)|(?P<gap>\n[ ]*(?=\n))",
    re.DOTALL | re.MULTILINE,
)
"""Where a page is cut into parts."""
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
MADE = re.compile(r"(<!-- made: ([\w-]+) -->\n)(.*?)(<!-- /made -->)", re.DOTALL)


@dataclass
class Part:
    """A paragraph, list item or table with the notes behind it."""

    start: int
    text: str
    notes: str = ""
    notes_start: int = 0
    reason: str = ""


@dataclass
class Checked:
    """A page as the files would have it, and what is wrong with it."""

    name: str
    text: str
    problems: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    found: int = 0
    by_hand: int = 0


def pages() -> list[str]:
    """The pages whose figures are looked after."""
    return [
        "README.md",
        "CONTRIBUTING.md",
        *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
    ]


def check(name: str, text: str | None = None) -> Checked:
    """The page with every block made anew and every figure that a note explains."""
    page = Checked(name, (ROOT / name).read_text(encoding="utf-8") if text is None else text)
    _make_blocks(page)
    edits: list[tuple[int, int, str]] = []
    for part in parts_of(page.text):
        edits += _check_part(page, part)
    for start, end, new in sorted(edits, reverse=True):
        page.text = page.text[:start] + new + page.text[end:]
    return page


def _make_blocks(page: Checked) -> None:
    def made(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            page.problems.append(f"{page.name}: no block is called {match[2]}")
            return match[0]
        return match[1] + BLOCKS[match[2]]() + match[4]

    opened, closed = page.text.count("<!-- made:"), page.text.count("<!-- /made -->")
    found = len(MADE.findall(page.text))
    if not opened == closed == found:
        page.problems.append(f"{page.name}: a made block is not opened and closed as it should be")
    page.text = MADE.sub(made, page.text)


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    """The text with what fits the pattern turned into blanks, line ends kept."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def parts_of(text: str) -> Iterator[Part]:
    """The page cut at empty lines, headings and notes; without code blocks and made blocks."""
    text = _blank(_blank(text, FENCED), MADE)
    whole = ""
    held: Part | None = None
    place = 0
    for cut in [*CUT.finditer(text), None]:
        end = len(text) if cut is None else cut.start()
        if text[place:end].strip():
            if held is not None:
                yield held
            held = Part(place, text[place:end], reason=whole)
        if cut is not None:
            place = cut.end()
            if cut["kind"] == "by hand, whole section":
                whole = cut["said"].strip()
            elif cut["head"] is not None:
                whole = ""
            elif cut["kind"] == "by hand" and held is not None:
                held.reason = cut["said"].strip()
            elif cut["kind"] == "figures" and held is not None:
                held.notes, held.notes_start = cut["said"], cut.start("said")
    if held is not None:
        yield held


def figures_of(text: str) -> Iterator[tuple[int, str]]:
    """Each figure with its place."""
    text = _blank(_blank(text, CODE), SETTINGS)
    numbers = {match.start(): match for match in NUMBER.finditer(text)}
    for start, match in numbers.items():
        if VERSION.search(text[:start]):
            continue
        if "." in match[0] or _has_unit(text, match.end(), numbers):
            yield start, match[0]


def _has_unit(text: str, end: int, numbers: dict[int, re.Match[str]]) -> bool:
    """Whether a unit follows, or follows the last of a row of numbers: 7 and 10 s."""
    while not UNIT.match(text, end):
        step = NEXT.match(text, end)
        following = numbers.get(step.end()) if step else None
        if following is None:
            return False
        end = following.end()
    return True


def _check_part(page: Checked, part: Part) -> list[tuple[int, int, str]]:
    """What has to be changed in the text and the note of one part."""
    shown: dict[str, list[int]] = {}
    for start, number in figures_of(part.text):
        shown.setdefault(number, []).append(start)
    first = len(part.text) - len(part.text.lstrip())
    entries = entries_of(part.notes)
    for number in entries.keys() - shown.keys():
        page.problems.append(
            f"{_where(page, part, first)}: {number}: is in the note, not in the text"
        )
    edits: list[tuple[int, int, str]] = []
    for number, places in shown.items():
        where = f"{_where(page, part, places[0])}: {number}"
        own = entries.get(number, [])
        if not own:
            page.by_hand += len(places)
            if not part.reason:
                page.problems.append(f"{where}: is in no file and not marked as typed by hand")
        elif len(own) not in (1, len(places)):
            page.problems.append(
                f"{where}: stands there {len(places)} times, {len(own)} in the note"
            )
        else:
            new = [_value(page, where, number, expression) for _, expression in own]
            each = new if len(new) > 1 else new * len(places)
            spots = [part.start + place for place in places]
            spots += [part.notes_start + at for at, _ in own]
            edits += [
                (spot, spot + len(number), text)
                for spot, text in zip(spots, each + new, strict=True)
            ]
            if any(text != number for text in new):
                page.moved.append(f"{where} is now {', '.join(new)}")
    return edits


def _where(page: Checked, part: Part, place: int) -> str:
    """The page and the line of a place in a part."""
    return f"{page.name}:{page.text.count(chr(10), 0, part.start + place) + 1}"


def entries_of(notes: str) -> dict[str, list[tuple[int, str]]]:
    """For each number the places of its entries in the note, and their expressions."""
    entries: dict[str, list[tuple[int, str]]] = {}
    for match in re.finditer(r"(?:^|;)\s*([+-]?[\d.,]+)\s*=((?:\"[^\"]*\"|[^;\"])*)", notes):
        entries.setdefault(match[1], []).append((match.start(1), match[2]))
    return entries


def _value(page: Checked, where: str, number: str, expression: str) -> str:
    """The figure as its expression gives it, with as many digits as are shown."""
    try:
        value = eval(" ".join(expression.split()), {"__builtins__": {}} | NAMES)
    except InputError:
        raise
    except Exception as error:
        page.problems.append(f"{where} = {expression.strip()}: {reason(error)}")
        return number
    if isinstance(value, str):
        page.by_hand += 1
        return number
    page.found += 1
    return like(number, float(value))


def like(shown: str, value: float) -> str:
    """The value with the sign, the digits and the commas of the number that is shown.

    Sums are rounded a little differently on other processors: a half must not go either way.
    """
    digits = len(shown.partition(".")[2])
    sign, comma = "+" if shown[0] in "+-" else "", "," if "," in shown else ""
    return format(round(value, 9), f"{sign}{comma}.{digits}f")


NAMES: dict[str, Any] = figure_sources.namespace()


def main() -> int:
    """Write the pages; the exit code."""
    return guarded(write_pages)


def write_pages() -> int:
    """Write all pages, or none where a figure has no source."""
    checked = [check(name) for name in pages()]
    problems = [line for page in checked for line in page.problems]
    if problems:
        raise InputError(problems)
    for page in checked:
        for line in page.moved:
            print(line)
        if page.text != (ROOT / page.name).read_text(encoding="utf-8"):
            write_text(ROOT / page.name, page.text)
            print(f"{page.name} written")
    found, by_hand = (sum(getattr(page, each) for page in checked) for each in ("found", "by_hand"))
    print(f"{found} figures in notes found in files, {by_hand} typed by hand; blocks made anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
