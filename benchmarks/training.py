"""How long one edge round of training takes, engine against engine.

    python benchmarks/training.py [--model lenet5] [--devices 72] [--steps 10] [--device cpu]
        [--engines sequential,stacked,stacked:chunk=8:workers=2] [--save FILE] ...

Every engine's models are compared with the sequential engine's before anything is timed, in float64
and in the type that is timed. In float32 a near tie in pooling or at a ReLU's kink may fall either
way, and one such moves a device's model by some 1e-4: only float64 tells that from a mistake. Then
the engines take turns in this process, each on the same round's batches. Data are random, made
here. What follows an engine's name after colons are options that its factory takes; `stacked` also
takes `workers`, by default one per core, or one on a GPU. On a processor its form and chunk are
measured where neither is given.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent / "peers"))

from control import summary
from memory import tree_memory_mb
from provenance import save, start_environment

from fedrt.data.batches import Batches
from fedrt.data.catalogue import Dataset
from fedrt.errors import FedrtError
from fedrt.learning.engines.engine import Engine, TrainingOrder
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.material import DTYPES
from fedrt.learning.models.architectures import make_model
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.setup import DEFAULT_CHUNK, ENGINES, WorkerRecipe, make_stacked
from fedrt.learning.stacked.engine import StackedEngine
from fedrt.learning.stacked.tuning import choose, measure
from fedrt.learning.stacked.workers import WorkerEngine
from fedrt.scenario import Scenario
from fedrt.scenario.load import load_scenario, setting_value
from fedrt.seeding import stream
from fedrt.system.machine import cores

SHAPES = {"lenet5": (28, 28, 1), "resnet20": (32, 32, 3), "small-cnn": (8, 8, 1)}
RATES = {"lenet5": 0.01, "resnet20": 0.1, "small-cnn": 0.05}
AGREEMENT = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 1e-2}
SEED = 0


@dataclass(frozen=True)
class Task:
    """One edge server's round: its data, how they are divided, and what is trained how."""

    dataset: Dataset
    parts: Sequence[NDArray[np.int64]]
    model: str
    steps: int
    batch_size: int = 32
    learning_rate: float = 0.01
    momentum: float = 0.9
    dtype: str = "float32"
    augment: bool = False
    device: str = "cpu"
    seed: int = SEED

    def order(self, r: int = 0) -> TrainingOrder:
        """All devices train for the same steps and count the same."""
        count = len(self.parts)
        return TrainingOrder(
            t=0,
            r=r,
            devices=np.arange(count),
            edge_of_device=np.zeros(count, dtype=np.int64),
            local_steps=np.full(count, self.steps),
            weight=np.full(count, 1 / count),
        )

    def samples(self) -> TensorSamples:
        """The data where training happens."""
        return TensorSamples(self.dataset, DTYPES[self.dtype], torch.device(self.device))

    def batches(self) -> Batches:
        """The draws of mini-batches."""
        return Batches(self.parts, self.batch_size, self.seed)

    def engine(self, text: str) -> tuple[Engine, FlatModel]:
        """The engine that `name:option=value:...` names, and its model with the first weights."""
        name, *options = text.split(":")
        if name not in ENGINES:
            raise SystemExit(f"engine {name!r}: must be one of {', '.join(ENGINES)}")
        pairs = [option.partition("=") for option in options]
        given = {key: setting_value(value) for key, _, value in pairs}
        samples = self.samples()
        module = make_model(self.model, samples.shape, self.dataset.num_classes, self.seed)
        model = FlatModel(module, samples.dtype, samples.device)
        settings = {
            "model": self.model,
            "learning_rate": self.learning_rate,
            "momentum": self.momentum,
            "batch_size": self.batch_size,
            "dtype": self.dtype,
            "augment": str(self.augment).lower(),
        }
        scenario = load_scenario(
            "quickstart", [f"learning.{key}={value}" for key, value in settings.items()]
        )
        if name == "stacked":
            on_gpu = samples.device.type == "cuda"
            if on_gpu:
                given = {"chunk": len(self.parts), "compiled": True, **given}
            elif "chunk" not in given and "form" not in given:
                given |= self._measured(model, samples, scenario)
            workers = int(given.pop("workers", 1 if on_gpu else cores()))
            if workers > 1:
                recipe = WorkerRecipe(
                    samples,
                    self.batches(),
                    scenario,
                    self.dataset.num_classes,
                    self.seed,
                    given.get("chunk", DEFAULT_CHUNK),
                    given.get("form", "grouped"),
                )
                return WorkerEngine(recipe, model.state()[None], workers), model
        try:
            return ENGINES[name](model, samples, self.batches(), scenario, **given), model
        except TypeError as error:
            raise SystemExit(f"engine {text!r}: {error}") from error

    def _measured(
        self, model: FlatModel, samples: TensorSamples, scenario: Scenario
    ) -> dict[str, Any]:
        """Form and chunk as a long run on this machine would choose them, measured anew."""

        def make(form: str, chunk: int) -> StackedEngine:
            return make_stacked(model, samples, self.batches(), scenario, chunk, form=form)

        first = model.state()
        trials = measure(make, first[None], len(self.parts))
        # Trials of the module itself have trained it.
        model.load(first)
        found = choose(trials, len(self.parts), 10**9, workers=cores())
        print(f"measured: {found}", file=sys.stderr, flush=True)
        return {"form": found.form, "chunk": found.chunk}


def random_dataset(shape: tuple[int, ...], count: int, seed: int, classes: int = 10) -> Dataset:
    """Smooth random images by a keyed generator, half of each its class's, so that training trains.

    Smooth, since on noise more maxima of pooling are near ties, which rounding decides.
    """
    height, width, channels = shape
    grid = (7, 7, channels)
    draw = stream(seed, "benchmark data")
    labels = draw.integers(classes, size=count)
    patterns = draw.random((classes, *grid), dtype=np.float32)
    rows, columns = _stretch(7, height), _stretch(7, width)
    images = np.empty((count, *shape), dtype=np.uint8)
    for first in range(0, count, 5000):
        chosen = labels[first : first + 5000]
        coarse = (draw.random((len(chosen), *grid), dtype=np.float32) + patterns[chosen]) / 2
        wide = np.einsum("xj,nijc->nixc", columns, coarse)
        images[first : first + 5000] = 255 * np.einsum("yi,nixc->nyxc", rows, wide)
    return Dataset("random", images, labels, images[:10], labels[:10], classes)


def _stretch(few: int, many: int) -> NDArray[np.float32]:
    """The matrix of linear interpolation from few points to many."""
    at = np.linspace(0, few - 1, many)[:, None]
    return np.maximum(0, 1 - np.abs(at - np.arange(few))).astype(np.float32)


def split_evenly(count: int, devices: int, seed: int) -> list[NDArray[np.int64]]:
    """The sample numbers of each device: a random order cut into equal parts."""
    return np.array_split(stream(seed, "benchmark parts").permutation(count), devices)


def seconds_of_round(engine: Engine, models: torch.Tensor, order: TrainingOrder) -> float:
    """Wall seconds of one edge round; on a GPU between events on its stream."""
    if models.device.type != "cuda":
        start = time.perf_counter()
        engine.train(models, order)
        return time.perf_counter() - start
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    engine.train(models, order)
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after) / 1000


def disagreement(
    models: torch.Tensor, expected: torch.Tensor, first: torch.Tensor, parameters: int
) -> float:
    """The worst difference of a parameter, relative to the norm of the expected update.

    Buffers are left out: counts of batches would make the norm large and the difference small.
    """
    found, wanted, start = (x[:, :parameters].double() for x in (models, expected, first))
    return float((found - wanted).abs().max() / (wanted - start).norm())


def close(engine: Engine) -> None:
    """Let an engine with worker processes end them."""
    getattr(engine, "close", lambda: None)()


def check(task: Task, names: list[str], limit: float) -> dict[str, float]:
    """How far each engine is from the sequential one after a round; too far ends it all."""
    sequential, model = task.engine("sequential")
    first = model.state()[None]
    expected = sequential.train(first, task.order()).models
    found: dict[str, float] = {}
    for name in names:
        engine = task.engine(name)[0]
        try:
            models = engine.train(first, task.order()).models
        finally:
            close(engine)
        found[name] = disagreement(models, expected, first, model.num_parameters)
        if not found[name] <= limit:
            text = f"{name} is {found[name]:.2g} off in {task.dtype}, more than {limit:g}"
            raise SystemExit(f"{text}: nothing is timed")
    return found


def compare(task: Task, names: list[str], warmup: int, repeats: int) -> dict[str, Any]:
    """Warm the engines up, then time them in turn."""
    engines: dict[str, Engine] = {}
    samples: dict[str, list[float]] = {name: [] for name in names}
    peaks = dict.fromkeys(names, 0)
    try:
        for name in names:
            engines[name], model = task.engine(name)
        first = model.state()[None]
        for turn in range(warmup + repeats):
            # Each turn starts with another engine, so that none always follows the same one.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if first.is_cuda:
                    torch.cuda.reset_peak_memory_stats()
                seconds = seconds_of_round(engines[name], first, task.order(r=turn))
                if first.is_cuda:
                    peaks[name] = max(peaks[name], torch.cuda.max_memory_allocated())
                if turn >= warmup:
                    samples[name].append(seconds)
        memory = tree_memory_mb()
    finally:
        for engine in engines.values():
            close(engine)
    rows: dict[str, Any] = {name: summary(samples[name]) for name in names}
    for name, row in rows.items():
        row["ms_per_local_step"] = row["median_s"] / task.steps * 1000
        if peaks[name]:
            row["peak_gpu_mb"] = peaks[name] / 2**20
    return {"engines": rows, "process_memory_mb": memory}


def versions(*packages: str) -> dict[str, str]:
    """Of Python and those of the packages that are there."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def show(results: dict[str, Any]) -> None:
    """The table of a comparison."""
    rows = results["engines"]
    slowest = rows.get("sequential", next(iter(rows.values())))["median_s"]
    width = max(len(name) for name in rows)
    print(f"{'engine':{width}}  median s (quartiles)        ms a step  times faster")
    for name, row in rows.items():
        spread = f"{row['median_s']:.4g} ({row['q1_s']:.4g} to {row['q3_s']:.4g})"
        print(
            f"{name:{width}}  {spread:26}  {row['ms_per_local_step']:9.2f}"
            f"  {slowest / row['median_s']:12.2f}"
            + (f"  {row['peak_gpu_mb']:.0f} MB GPU" if "peak_gpu_mb" in row else "")
        )
    print("memory of all processes, MB:", results["process_memory_mb"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=SHAPES, default="lenet5")
    parser.add_argument("--devices", type=int, default=72)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--images", type=int, default=60_000, help="training samples in all")
    parser.add_argument("--learning-rate", type=float, help="default: as the paper's for the model")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--augment", action="store_true")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated; see above")
    parser.add_argument("--threads", type=int, help="of this process, for torch")
    parser.add_argument("--tf32", action="store_true", help="let the GPU round float32 products")
    parser.add_argument("--agreement", type=float, help=f"default {AGREEMENT}")
    parser.add_argument("--no-float64", action="store_true", help="leave out the exact check")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before those that count")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.tf32
    count = max(args.images, args.devices)
    task = Task(
        dataset=random_dataset(SHAPES[args.model], count, SEED),
        parts=split_evenly(count, args.devices, SEED),
        model=args.model,
        steps=args.steps,
        batch_size=args.batch,
        learning_rate=args.learning_rate or RATES[args.model],
        dtype=args.dtype,
        augment=args.augment,
        device=args.device,
    )
    limit = args.agreement or AGREEMENT[args.dtype]
    gpu = {"gpu": torch.cuda.get_device_name()} if args.device.startswith("cuda") else {}
    results: dict[str, Any] = {
        "command": "python benchmarks/training.py " + " ".join(sys.argv[1:]),
        "environment": start_environment(**gpu),
        "versions": versions("torch", "numpy", "triton"),
        "config": {key: value for key, value in vars(args).items() if key != "save"}
        | {"agreement": limit, "learning_rate": task.learning_rate}
        | {"threads": torch.get_num_threads(), "seed": SEED},
    }
    for title, value in results.items():
        print(f"{title}: {value}")
    names = args.engines.split(",")
    results["disagreement"] = {}
    try:
        if not args.no_float64:
            exact = replace(task, dtype="float64")
            results["disagreement"]["float64"] = check(exact, names, AGREEMENT["float64"])
        if args.no_float64 or args.dtype != "float64":
            results["disagreement"][args.dtype] = check(task, names, limit)
        print(f"worst difference relative to the update's norm: {results['disagreement']}")
        if args.repeats:
            results |= compare(task, names, args.warmup, args.repeats)
            show(results)
    except FedrtError as error:
        raise SystemExit(str(error)) from error
    save(args.save, results)


if __name__ == "__main__":
    main()
