"""`fedrt-joint` where clusters have few labels: does finer gossip, or do finer updates, cure it?

    PYTHONPATH=src python benchmarks/few_labels.py --data-dir DIR --seeds 0,1,2 \
        --save benchmarks/results/few_labels.json

The settings as they are, and `fedrt`, are cells of `fedrt reproduce joint`. Results that the file
has already are not trained again. `--quick` trains a few rounds of digits, to see that it runs.
"""

from __future__ import annotations

import sys

from femnist_methods import QUICK, in_words, options, saved, train
from provenance import save

from fedrt.cli import guarded
from fedrt.experiments.cells import FEW_LABELS

CURES = {
    "gossip int8": ("learning.gossip=int8",),
    "gossip int6": ("learning.gossip=int6",),
    "updates int8": ("control.distortion_limit=int8",),
    "gossip and updates int8": ("control.distortion_limit=int8", "learning.gossip=int8"),
}
COLUMNS = {column.name: column for column in FEW_LABELS}


def run_all() -> int:
    """Train the chosen cures on every seed, and save after each."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--column", default="cifar10-labels-2", choices=COLUMNS)
    parser.add_argument("--cures", default="gossip int8", help="such as 'gossip int8,updates int8'")
    args = parser.parse_args()
    chosen = args.cures.split(",")
    if unknown := [name for name in chosen if name not in CURES]:
        parser.error(f"--cures {unknown[0]!r}: must be among {', '.join(CURES)}")
    column, data = COLUMNS[args.column], saved(args.save)
    own = data.setdefault("columns", {}).setdefault(column.name, {})
    for seed in args.seeds.split(","):
        for name in chosen:
            found = own.setdefault(name, {})
            if seed in found:
                continue
            if args.quick:
                source, given = "quickstart", (*CURES[name], *QUICK)
            else:
                source, given = column.scenario, (*column.settings, *CURES[name])
            found[seed] = train(source, given, "fedrt-joint", int(seed), args)
            save(args.save, data)
            print(f"{column.name}, seed {seed}, {name}: {in_words(found[seed])}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(run_all))
