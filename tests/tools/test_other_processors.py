"""`tools/other_processors.sh` has tests run as on other processors: its variants are in force."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from support import learning_cases  # noqa: F401 - sets the number of threads, as for all tests that train
from support.children import LIMIT_S, environment

pytestmark = pytest.mark.numerical

VARIANTS = ("sse41", "avx2", "without-mkldnn", "two-threads")
VARIANT = os.environ.get("FEDRT_TEST_VARIANT", "")

LOOK = """
import torch
print(torch.backends.cpu.get_cpu_capability(), torch.backends.mkldnn.enabled,
      torch.get_num_threads())
"""


def seen_by_a_child() -> list[str]:
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return done.stdout.split()


@pytest.mark.skipif(not VARIANT, reason="this run is on the machine's own processor")
def test_the_variant_is_in_force_here_and_in_child_processes():
    assert VARIANT in VARIANTS
    capability = {"sse41": "DEFAULT", "avx2": "AVX2"}.get(VARIANT)
    mkldnn, threads = VARIANT != "without-mkldnn", 2 if VARIANT == "two-threads" else 1
    mine = torch.backends.cpu.get_cpu_capability()
    assert capability in (None, mine)
    assert torch.backends.mkldnn.enabled == mkldnn
    assert torch.get_num_threads() == threads
    assert seen_by_a_child() == [mine, str(mkldnn), str(threads)]
