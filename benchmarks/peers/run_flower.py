"""One side of the peers' benchmark: Flower's simulation, ServerApp and ClientApp on Ray workers.

.venv-flower/bin/python benchmarks/peers/run_flower.py --job JOB.npz [--workers 2]
"""

from __future__ import annotations

import os
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from flower_client import client
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from job import Rounds, load_job, parser


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--channels-last", action="store_true")
    args = options.parse_args()
    path = os.path.abspath(args.job)
    job = load_job(path, args.dtype)
    rounds = Rounds(job, args.warmup)
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        """One-round runs of the strategy, each from the first weights."""
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=job.devices)
        first = ArrayRecord(job.first)
        threads = 0.0
        for _ in range(args.warmup + args.rounds):
            config = {"job": path, "dtype": args.dtype, "channels-last": args.channels_last}
            start = time.perf_counter()
            result = strategy.start(grid, first, num_rounds=1, train_config=ConfigRecord(config))
            seconds = time.perf_counter() - start
            threads = float(result.train_metrics_clientapp[1]["threads"])
            rounds.add(seconds, result.arrays.to_torch_state_dict())
        rounds.report(
            f"flower, {args.workers} workers",
            ("flwr", "ray", "torch", "numpy"),
            threads=threads,
            channels_last=args.channels_last,
        )

    run_simulation(
        server,
        client,
        num_supernodes=job.devices,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": args.workers},
        },
    )
    if len(rounds.seconds) != args.rounds:
        raise SystemExit("Flower's simulation did not finish")


if __name__ == "__main__":
    main()
