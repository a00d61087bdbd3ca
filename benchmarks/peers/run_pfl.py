"""One side of the peers' benchmark: pfl's simulated backend, in one process or several.

    .venv-pfl/bin/python benchmarks/peers/run_pfl.py --job JOB.npz [--processes 2]

Several processes find each other as pfl has it, by PFL_WORKER_ADDRESSES and PFL_WORKER_RANK; they
reduce with gloo. pfl evaluates every user in its first iteration: that is part of the warm-up.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from job import Job, LeNet5, Rounds, load_job, parser
from torch import Tensor
from torch.nn import functional as fn

ADDRESSES, RANK = "PFL_WORKER_ADDRESSES", "PFL_WORKER_RANK"


class PflLeNet5(LeNet5):
    """With the two methods that pfl asks for."""

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        return fn.cross_entropy(self(inputs), labels)

    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        from pfl.metrics import Weighted

        with torch.no_grad():
            return {"loss": Weighted(float(self.loss(inputs, labels)), len(labels))}


def start_others(count: int) -> list[subprocess.Popen[bytes]]:
    """Start the processes after this one, which becomes rank 0."""
    ports = []
    for _ in range(count):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    os.environ[ADDRESSES] = ",".join(f"127.0.0.1:{port}" for port in ports)
    os.environ[RANK] = "0"
    command = [sys.executable, *sys.argv]
    return [
        subprocess.Popen(command, env={**os.environ, RANK: str(rank)}, stdout=subprocess.DEVNULL)
        for rank in range(1, count)
    ]


def train(job: Job, rounds: Rounds, count: int, *, channels_last: bool) -> None:
    """Run pfl's federated averaging, every iteration from the first weights."""
    # Importing pfl's torch part joins the processes: only after the addresses are set.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Clock(TrainingProcessCallback):
        """Takes the time of each iteration, checks its model and puts the first weights back."""

        def on_train_begin(self, *, model: Any) -> Any:
            self.start = time.perf_counter()
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Any, model: Any, *, central_iteration: int
        ) -> tuple[bool, Any]:
            seconds = time.perf_counter() - self.start
            rounds.add(seconds, model.pytorch_model.state_dict())
            model.pytorch_model.load_state_dict(job.first)
            self.start = time.perf_counter()
            return False, Metrics()

    def user_data(user: int) -> PyTorchTensorDataset:
        inputs, labels = job.samples(user)
        if channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return PyTorchTensorDataset((inputs, labels), user_id=str(user))

    module = PflLeNet5().to(job.dtype)
    module.load_state_dict(job.first)
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
    model = PyTorchModel(
        module,
        local_optimizer_create=lambda held, lr: torch.optim.SGD(held, lr, job.momentum),
        central_optimizer=torch.optim.SGD(module.parameters(), 1.0),
    )
    sampler = get_user_sampler("minimize_reuse", range(job.devices))
    data = FederatedDataset(user_data, sampler)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=count,
            evaluation_frequency=count + 1,
            train_cohort_size=job.devices,
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data, postprocessors=[WeightByUser()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=1,
            local_learning_rate=job.learning_rate,
            local_batch_size=job.batch_size,
        ),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Clock()],
        send_metrics_to_platform=False,
    )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--channels-last", action="store_true")
    args = options.parse_args()
    if args.warmup < 1:
        raise SystemExit("--warmup: pfl needs at least 1")
    others = start_others(args.processes) if args.processes > 1 and RANK not in os.environ else []
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op`", FutureWarning)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // args.processes))
    job = load_job(args.job, args.dtype)
    rounds = Rounds(job, args.warmup)
    try:
        train(job, rounds, args.warmup + args.rounds, channels_last=args.channels_last)
        rounds.report(
            f"pfl, {args.processes} process{'es' if args.processes > 1 else ''}",
            ("pfl", "torch", "numpy"),
            threads=torch.get_num_threads(),
            channels_last=args.channels_last,
        )
    except BaseException:
        for other in others:
            other.kill()
        raise
    finally:
        codes = [other.wait() for other in others]
    if any(codes):
        raise SystemExit(f"another process ended with {codes}")


if __name__ == "__main__":
    main()
