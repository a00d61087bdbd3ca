"""One side of the peers' benchmark: an engine of FedRT's.

python benchmarks/peers/run_fedrt.py --job JOB.npz [--engine stacked:workers=2] [--threads N]
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from job import Rounds, load_job, parser
from make_job import load_task, named
from training import close

from fedrt.learning.engines.engine import Engine
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.workers import WorkerEngine


def chosen(engine: Engine) -> str | None:
    """How the stacked engine trains, where it does."""
    if isinstance(engine, WorkerEngine):
        return f"{engine.form}, {len(engine.processes)} processes"
    return engine.form if isinstance(engine, StackedEngine) else None


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--engine", default="stacked", help="name:option=value:...")
    options.add_argument("--threads", type=int, help="of this process, for torch")
    args = options.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    task, job = load_task(Path(args.job), args.dtype), load_job(args.job, args.dtype)
    engine, model = task.engine(args.engine)
    first = model.state()[None]
    order = task.order()
    drawn = task.batches().draw(order.t, order.r, task.steps, order.devices)
    if not torch.equal(torch.from_numpy(drawn), job.chosen):
        raise SystemExit("the batches are not the job's")
    rounds = Rounds(job, args.warmup)
    try:
        for _ in range(args.warmup + args.rounds):
            start = time.perf_counter()
            trained = engine.train(first, order).models
            seconds = time.perf_counter() - start
            state = named(model, trained[0])
            rounds.add(seconds, {name: torch.from_numpy(held) for name, held in state.items()})
        rounds.report(
            f"fedrt {args.engine}",
            ("torch", "numpy"),
            threads=torch.get_num_threads(),
            chosen=chosen(engine),
        )
    finally:
        close(engine)


if __name__ == "__main__":
    main()
