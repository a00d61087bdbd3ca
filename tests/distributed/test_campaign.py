"""Workers, nodes and the driver killed at random: every run ends with the same history."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from support.children import LIMIT_S, environment
from support.paths import ROOT


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the ray extra")
def test_a_trial_of_the_campaign():
    """In a process of its own: a cluster's children are none of the test's."""
    words = [sys.executable, str(ROOT / "tools" / "ray_campaign.py"), "--trials", "1", "--seed"]
    done = subprocess.run(
        [*words, "7"],
        env=environment(ROOT / "src"),
        capture_output=True,
        text=True,
        timeout=6 * LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    verdict = done.stdout.splitlines()[-1]
    assert verdict.startswith("1 trial")
    assert verdict.endswith(" killed, 0 different from the untouched run")
    assert "0 workers, 0 nodes, 0 drivers" not in verdict
