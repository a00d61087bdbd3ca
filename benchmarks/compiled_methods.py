"""Every optimiser, schedule and task on a GPU: the compiled step against the sequential engine.

    PYTHONPATH=src python benchmarks/compiled_methods.py --save compiled_methods.json

One edge round in float64, from the same models: the worst distance of an edge model from the
sequential engine's, of what the round has changed. Ends with 1 if one is above 1e-9: Adam divides
by gradients that may be small.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import save

from fedrt.learning.engines.engine import TrainingOrder
from fedrt.learning.engines.sequential import SequentialEngine
from fedrt.learning.setup import make_setup
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.runs.loop import make_world
from fedrt.scenario import load_scenario

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST = 1e-9
SMOOTH = ('learning.model="smooth-cnn"',)
ADAM = 'learning.optimiser={kind="adam",epsilon=0.001}'
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "sgd": ("quickstart", SMOOTH),
    "nesterov, weight decay": (
        "quickstart",
        (*SMOOTH, 'learning.optimiser={kind="sgd",nesterov=true,weight_decay=0.1}'),
    ),
    "adam": ("quickstart", (*SMOOTH, ADAM)),
    "adamw": ("quickstart", (*SMOOTH, 'learning.optimiser={kind="adamw",epsilon=0.001}')),
    "cosine": ("quickstart", (*SMOOTH, 'learning.schedule="cosine"')),
    "clipping": ("quickstart", (*SMOOTH, "learning.clip_norm=0.5")),
    "FedProx": ("quickstart", (*SMOOTH, "learning.proximal=0.3")),
    "SCAFFOLD": ("quickstart", (*SMOOTH, "learning.scaffold=true", "learning.momentum=0")),
    "next-token": ("characters", (ADAM, "learning.batch_size=4")),
    "regression": ("diabetes", ()),
    "transformer": ("transformer", (ADAM, "learning.batch_size=4")),
}


def apart(name: str, given: tuple[str, ...], device: str) -> float:
    """The worst distance between the two engines' edge models."""
    source: Any = name if name == "quickstart" else EXAMPLES / f"{name}.toml"
    scenario = load_scenario(source, [*given, 'learning.dtype="float64"'])
    setup = make_setup(make_world(scenario, 0), engine="sequential", device=device)
    fleet, method = setup.world.fleet, setup.method
    count = fleet.num_devices
    order = TrainingOrder(
        t=1,
        r=0,
        devices=np.arange(count),
        edge_of_device=fleet.edge_of_device,
        local_steps=1 + np.arange(count) % 3,
        weight=(1 / np.bincount(fleet.edge_of_device))[fleet.edge_of_device],
    )
    if scenario.learning.scaffold:
        drawn = np.random.default_rng(0).normal(size=(count, setup.model.num_parameters))
        order = replace(order, correction=0.1 * drawn)
    models = setup.first_model.repeat(fleet.num_edges, 1)
    parts = (setup.model, setup.samples, setup.batches, method)
    wanted = SequentialEngine(*parts, augment=False).train(models, order).models
    engine = StackedEngine(*parts, augment=False, chunk=count, compiled=device != "cpu")
    found = engine.train(models, order).models
    return float(((found - wanted).norm(dim=1) / (wanted - models).norm(dim=1)).max())


def main() -> int:
    """Compare every case; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cpu: the stacked engine, not compiled")
    parser.add_argument("--only", default="")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    cases: dict[str, Any] = {}
    for name, (source, given) in CASES.items():
        if args.only not in name:
            continue
        began = time.monotonic()
        try:
            cases[name] = {"apart": apart(source, given, args.device)}
        except Exception as error:  # the others are still to be seen
            cases[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
        cases[name]["wall_s"] = time.monotonic() - began
        print(f"{name}: {cases[name]}", flush=True)
        save(args.save, {"command": " ".join(sys.argv), "cases": cases})
    return int(any(case.get("apart", 1.0) > MOST for case in cases.values()))


if __name__ == "__main__":
    sys.exit(main())
