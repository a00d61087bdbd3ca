"""What the README and the examples show runs as shown."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from support.children import LIMIT_S
from support.paths import ROOT

README = (ROOT / "README.md").read_text()


def run(*command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_library_example_is_short_and_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(code.splitlines()) <= 15
    out = run(sys.executable, "-c", code)
    assert out.startswith("optimal ")
    assert "less time than an even split" in out


def test_example_plan_prints_a_table():
    out = run(sys.executable, "examples/plan_round.py")
    assert "status: optimal" in out
    assert "round time:" in out


@pytest.mark.parametrize("link", re.findall(r"\]\((docs/[^)]*)\)", README))
def test_linked_pages_exist(link):
    assert (ROOT / link).is_file()
