"""What a local step of one device takes on one thread in every form of the stacked engine.

    python benchmarks/forms.py [--model lenet5] [--repeats 5] [--save FILE]

As the tuning of the engine measures it (`fedrt.learning.stacked.tuning.measure`), several times
over, with what would be chosen each time. Variables such as ATEN_CPU_CAPABILITY restrict the
instructions.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent / "peers"))

from control import summary
from provenance import save
from run import LIMITS
from training import SEED, SHAPES, Task, random_dataset, split_evenly, versions

from fedrt.learning.setup import make_stacked
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.tuning import choose, measure
from fedrt.scenario.load import load_scenario


def compare(name: str, devices: int, repeats: int) -> dict[str, Any]:
    """Seconds of a step by form and chunk, and what was chosen."""
    dataset = random_dataset(SHAPES[name], 3000, SEED)
    task = Task(dataset, split_evenly(3000, devices, SEED), name, steps=1)
    engine, model = task.engine("stacked:workers=1:chunk=1")
    assert isinstance(engine, StackedEngine)
    scenario = load_scenario("quickstart", [f"learning.model={name}"])
    first = model.state()

    def make(form: str, chunk: int) -> StackedEngine:
        batches = engine.batches
        return make_stacked(model, engine.samples, batches, scenario, chunk, form=form)

    took: dict[str, list[float]] = {}
    chosen = []
    for _ in range(repeats):
        found = measure(make, first[None], devices)
        for trial in found.trials:
            where = "" if trial.threads == 1 else f", {trial.threads} threads"
            took.setdefault(f"{trial.form}, {trial.chunk}{where}", []).append(trial.seconds)
        many = choose(found, devices, 10**9, workers=os.cpu_count())
        chosen.append(f"{many.form}, {many.chunk}")
    rows = {key: summary(values) for key, values in took.items() if len(values) > 1}
    return {"step": rows, "chosen": chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=SHAPES, default="lenet5")
    parser.add_argument("--devices", type=int, default=72)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    result = {
        "command": f"python benchmarks/forms.py {' '.join(sys.argv[1:])}".strip(),
        "instructions": {name: os.environ[name] for name in LIMITS if name in os.environ},
        "versions": versions("torch", "numpy", "numba"),
        **compare(args.model, args.devices, args.repeats),
    }
    for key, row in result["step"].items():
        print(f"{key:28} {1000 * row['median_s']:8.2f} ms  n={row['n']}")
    print("chosen:", *result["chosen"], sep="\n  ")
    save(args.save, result)


if __name__ == "__main__":
    main()
