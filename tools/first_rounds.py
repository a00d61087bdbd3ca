"""Write results/first_rounds.json anew: `python tools/first_rounds.py DATA_DIR` (needs FEMNIST)."""

from __future__ import annotations

import sys
from pathlib import Path

from fedrt.experiments.first_rounds import CASES, first_rounds
from fedrt.records.directory import environment
from fedrt.system.files import write_json

if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: python tools/first_rounds.py DATA_DIR (a folder)", file=sys.stderr)
        sys.exit(2)
    data_dir = Path(sys.argv[1])
    rounds = {case: first_rounds(case, data_dir) for case in CASES}
    target = Path(__file__).parents[1] / "results" / "first_rounds.json"
    write_json(target, {"rounds": rounds, "environment": environment()})
    print(f"saved in {target}")
