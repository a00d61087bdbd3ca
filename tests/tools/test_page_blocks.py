"""Every code block of the documentation site runs as it stands there, but for those marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import Block, _differs, read_page
from support.children import LIMIT_S, environment
from support.paths import ROOT

DOCS = ROOT / "docs"
TUTORIAL = sorted((DOCS / "tutorial").glob("*.md"))
GROUPS = [TUTORIAL, *([page] for page in sorted(DOCS.rglob("*.md")) if page not in TUTORIAL)]
"""Pages that are read one after the other, in one folder."""
LEAST_RUN = 0.7
"""The share of blocks that must run; pages about installing and several machines have few."""


def blocks(group: list[Path]) -> list[Block]:
    named = [(page.read_text(), str(page.relative_to(ROOT))) for page in group]
    return [block for text, name in named for block in read_page(text, name)[0]]


WITH_CODE = [group for group in GROUPS if any(block.runs for block in blocks(group))]
OTHERWISE = [
    group
    for group in WITH_CODE
    if any({"small", "long"} & block.marks.keys() for block in blocks(group))
]
"""Groups that `--as-shown` runs otherwise."""


def run(pages: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/page_blocks.py"), *options, *map(str, pages)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LIMIT_S,
    )


def name_of(group: list[Path]) -> str:
    return "tutorial" if group is TUTORIAL else group[0].stem


@pytest.mark.parametrize("group", WITH_CODE, ids=name_of)
def test_blocks_run(group):
    done = run(group)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize("group", OTHERWISE, ids=name_of)
def test_blocks_run_as_shown(group):
    done = run(group, "--as-shown")
    assert done.returncode == 0, done.stderr


def test_blocks_say_what_they_are():
    for page in sorted(DOCS.rglob("*.md")):
        assert read_page(page.read_text(), page.name)[1] == []


def test_nearly_all_blocks_run(record_property):
    code = [block for group in GROUPS for block in blocks(group) if block.language != "text"]
    ran = [block for block in code if block.runs]
    quickly = [block for block in ran if "long" not in block.marks]
    record_property("blocks", len(code))
    record_property("blocks that run", len(ran))
    record_property("blocks that run in every test run", len(quickly))
    assert len(code) > 50
    assert len(quickly) / len(code) >= LEAST_RUN


PAGE = """\
```bash
fedrt scenario list
echo out; echo more
```

<!-- output -->
```text
...
out
more
```

```python
# module.py
number = 1
```

```python
import module

print(module.number)
```

<!-- output -->
```text
1
```

<!-- first: rounds.global_rounds = 3 -->
```toml
[bandwidth]
scale = 2
```

<!-- fails: 2 -->
```bash
fedrt scenario show nowhere
```

<!-- not run: needs root -->
```bash
reboot
```
"""


def test_a_page_runs_in_order(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    done = run([page])
    assert (done.returncode, done.stdout) == (0, "5 of 6 blocks ran\n"), done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("print(module.number)", "print(module.other)", "page.md:18: AttributeError"),
        ("scale = 2", "scales = 2", "scenario.bandwidth.scales: unknown field"),
        ("out\nmore\n", "out\nless\n", "page.md:7: is not what is printed"),
        ("<!-- fails: 2 -->\n", "", "BlockError: exit code 2: fedrt scenario show nowhere"),
        ("echo more", "false", "exit code 1: echo out; false"),
    ],
)
def test_a_page_that_is_wrong_is_noticed(tmp_path, old, new, said):
    page = tmp_path / "page.md"
    assert PAGE.count(old) == 1
    page.write_text(PAGE.replace(old, new))
    done = run([page])
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a 1.25 s\n...\nend", "a  1.26 s\nb\nend", True),
        ("a 1.25 s\n...\nend", "a 1.27 s\nb\nend", False),
        ("a 3 of 4", "a 2 of 4", False),
        ("...\nb\n...", "a\nb\nc", True),
        ("...\nd\n...", "a\nb\nc", False),
        ("a\n...\na", "a", False),
        ("a\nb", "a\nb\nc", False),
        ("a\n...", "a\nb\nc", True),
    ],
)
def test_shown_output_fits_what_is_printed(shown, printed, fits):
    assert (_differs(Block("page", 1, "text", shown), printed) == []) is fits


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\nfedrt run\n```\n", "page:1: '' is none of bash, python"),
        ("<!-- not run: too slow -->\n```bash\nls\n```\n", "page:2: not run: must be one of"),
        ("- item\n\n  ```bash\n  ls\n  ```\n", "page: 2 lines begin or end a block, of 0 blocks"),
    ],
)
def test_blocks_that_nobody_would_run_are_refused(text, said):
    (problem,) = read_page(text)[1]
    assert problem.startswith(said)


def test_marks_stand_right_before_their_block():
    text = "<!-- first: x = 1 -->\n\n```python\nprint(x)\n```\n"
    ((block,), _) = read_page(text)
    assert block.marks == {}
    ((block,), _) = read_page(text.replace("-->\n\n", "-->\n<!-- long: why -->\n"))
    assert block.marks == {"first": "x = 1", "long": "why"}
