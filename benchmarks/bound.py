"""How far `fedrt` and `fedrt-plus` stay above the hindsight bound in five settings.

    python benchmarks/bound.py --save benchmarks/results/bound.json

`fedrt bound` with three seeds for each setting (docs/bound.md); minutes on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from beyond import ABLATION as SETTINGS

from fedrt import cli
from fedrt.errors import FedrtError
from fedrt.records.directory import environment
from fedrt.system.files import write_json


def bound(words: tuple[str, ...], seeds: str) -> dict[str, Any]:
    """What `fedrt bound --json` prints for a scenario and its changed settings."""
    said = io.StringIO()
    command = ["bound", words[0], "--seeds", seeds, "--policies", "fedrt,fedrt-plus", "--json"]
    with contextlib.redirect_stdout(said):
        code = cli.main([*command, *(f"--set={setting}" for setting in words[1:])])
    if code:
        raise FedrtError(f"fedrt {' '.join(command)}: exit code {code}")
    data: dict[str, Any] = json.loads(said.getvalue())
    return data


def main() -> int:
    """Bound every setting and save it; the exit code."""
    return cli.guarded(run)


def run() -> int:
    """Bound every setting and save it."""
    parser = argparse.ArgumentParser(description="the hindsight bound in five settings")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    data: dict[str, Any] = {"command": " ".join(sys.argv), "environment": environment()}
    data["settings"] = {}
    for name, words in SETTINGS.items():
        data["settings"][name] = own = bound(words, args.seeds)
        above = own["policies"]["fedrt-plus"]["above_bound"]["per_seed"]
        print(f"{name}: {', '.join(f'{value:+.1%}' for value in above)}", flush=True)
        if args.save:
            write_json(args.save, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
