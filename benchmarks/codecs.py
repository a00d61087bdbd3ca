"""How long update codecs take: as bytes, in a round on a processor, and on a GPU if there is one.

    python benchmarks/codecs.py [--numbers 25000000] [--repeats 7] [--devices 72] [--save FILE]

Bytes: encoding and decoding of a vector on one thread, in GB of float32 per second. A round: the
sending of all updates of LeNet-5 devices beside the local training of the same round. On a GPU:
the sending of ResNet-20 updates, compiled as training has it, and whole rounds with and without it.
Before anything is timed, all ways to compute it are held equal to the byte form, to the bit, on
usual numbers and on extreme ones.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))

from control import summary
from provenance import save

from fedrt.learning.codecs import ErrorFeedback, make_format
from fedrt.learning.codecs.blocks import GRIDS, receive_blocks
from fedrt.learning.engines.engine import DeviceResults, TrainingOrder
from fedrt.learning.engines.sending import Program, Uplink
from fedrt.messages import CODECS

CODEC_NAMES = tuple(CODECS)

EDGES = 8
LENET5, RESNET20 = 431_080, 269_722


def order_for(names: list[str], states: Tensor) -> TrainingOrder:
    """An order in which every device has a codec of its own."""
    count = len(names)
    return TrainingOrder(
        t=0,
        r=0,
        devices=np.arange(count),
        edge_of_device=np.sort(np.arange(count) % EDGES),
        local_steps=np.ones(count, dtype=np.int64),
        weight=np.ones(count),
        codec_state=states,
        state_row=np.arange(count),
        codec=np.array([CODEC_NAMES.index(name) for name in names]),
        menu=CODEC_NAMES,
    )


def fleet(devices: int, size: int, extreme: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The models of edge servers, each device's edge, trained models and states."""
    rng = np.random.default_rng(0)
    models = rng.standard_normal((EDGES, size), dtype=np.float32) * np.float32(0.1)
    edge = np.sort(np.arange(devices) % EDGES)
    change = rng.standard_normal((devices, size), dtype=np.float32) * np.float32(0.01)
    if extreme:
        scale = 10.0 ** rng.uniform(-44, 38, devices)
        change *= scale[:, None].astype(np.float32)
        change[:: devices // 6 or 1, : size // 2] = 0
        change[1::7] = np.rint(change[1::7] * 8) / 8
        change = np.clip(change, -3e38, 3e38)
    states = rng.standard_normal((devices, size), dtype=np.float32) * np.float32(0.003)
    given = (models, edge, models[edge] + change, states)
    return tuple(torch.from_numpy(array) for array in given)  # type: ignore[return-value]


def send(
    names: list[str],
    given: tuple[Tensor, Tensor, Tensor, Tensor],
    program: Callable[[list[Tensor]], Program] | None = None,
) -> None:
    """Send the updates of all devices, in place."""
    models, edge, trained, states = given
    order = order_for(names, states)
    coding = {} if program is None else {"program": program}
    uplink = Uplink(
        ErrorFeedback("int4"), states.shape[1], order, DeviceResults.blank(order), **coding
    )
    uplink.send(np.arange(len(names)), models, edge, trained)


def by_bytes(names: list[str], given: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    """The same, message by message."""
    models, edge, trained, states = given
    for n, name in enumerate(names):
        codec, start = ErrorFeedback(name), models[edge[n]]
        message, left = codec.encode(trained[n] - start, states[n])
        assert left is not None
        trained[n], states[n] = start + codec.decode(message), left


def check(where: torch.device, program: Callable[[list[Tensor]], Program] | None) -> int:
    """Hold sending on a device equal to the byte form; how many numbers were compared."""
    compared = 0
    for extreme in (False, True):
        for names in ([*GRIDS] * 8, [*CODEC_NAMES] * 5):
            given = fleet(len(names), 3 * 4096 + 77, extreme)
            expected = tuple(tensor.clone() for tensor in given)
            by_bytes(names, expected)
            there = tuple(tensor.clone().to(where) for tensor in given)
            send(names, there, program)
            for found, wanted in zip(there[2:], expected[2:], strict=True):
                bits = (found.cpu() + 0.0).view(torch.int32) != (wanted + 0.0).view(torch.int32)
                if bool(bits.any()):
                    raise SystemExit(f"{where}: {int(bits.sum())} numbers differ from the bytes'")
                compared += wanted.numel()
    return compared


def timed(work: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Seconds of some work, after one run that is not counted."""
    took = []
    for number in range(repeats + 1):
        began = time.perf_counter()
        work()
        if number:
            took.append(time.perf_counter() - began)
    return summary(took)


def bytes_speed(args: argparse.Namespace) -> dict[str, Any]:
    """GB of float32 per second, encoded and decoded, for every codec."""
    numbers = torch.from_numpy(
        np.random.default_rng(0).standard_normal(args.numbers, dtype=np.float32)
    )
    found = {}
    for name in CODEC_NAMES:
        coded = make_format(name)
        message = coded.encode(numbers)
        row: dict[str, Any] = {"bytes": len(message)}
        ways: dict[str, Callable[[], Any]] = {
            "encode": lambda coded=coded: coded.encode(numbers),  # type: ignore[misc]
            "decode": lambda coded=coded, message=message: coded.decode(message),  # type: ignore[misc]
        }
        for way, work in ways.items():
            row[way] = timed(work, args.repeats)
            row[f"{way}_gb_s"] = numbers.nbytes / row[way]["median_s"] / 1e9
        print(f"{name:8} encode {row['encode_gb_s']:6.2f} GB/s, decode {row['decode_gb_s']:6.2f}")
        found[name] = row
    return found


def round_share(args: argparse.Namespace) -> dict[str, Any]:
    """What sending takes of a round of LeNet-5 devices with as many threads as torch has."""
    names = ["int4"] * args.devices
    given = fleet(args.devices, LENET5, extreme=False)
    sending = timed(lambda: send(names, given), args.repeats)
    found: dict[str, Any] = {"threads": torch.get_num_threads(), "sending": sending}
    with tempfile.TemporaryDirectory() as folder:
        took: dict[str, list[float]] = {"none": [], "int4": []}
        for upload in ("none", "int4", "int4", "none"):
            took[upload] += trained_round(Path(folder), upload, args)
    rounds = {upload: summary(seconds) for upload, seconds in took.items()}
    found["round"] = rounds
    whole = rounds["none"]["median_s"]
    found["sending_share"] = sending["median_s"] / whole
    found["round_share"] = rounds["int4"]["median_s"] / whole - 1
    print(
        f"{args.devices} LeNet-5 devices: sending {1000 * sending['median_s']:.1f} ms,"
        f" {100 * found['sending_share']:.2f} % of a round of {whole:.2f} s; the round with int4"
        f" {100 * found['round_share']:+.2f} %"
    )
    return found


def trained_round(folder: Path, upload: str, args: argparse.Namespace) -> list[float]:
    """Seconds of an edge round of LeNet-5 devices with 10 local steps each, in processes."""
    from fedrt.learning.setup import make_setup
    from fedrt.learning.trainer import Trainer
    from fedrt.policies import make_policy
    from fedrt.runs.loop import simulate_rounds
    from fedrt.scenario.load import load_scenario
    from fedrt.world.simulated import SimulatedWorld

    file, rng = folder / "images.npz", np.random.default_rng(0)
    if not file.exists():
        images = rng.integers(0, 256, (2000, 28, 28, 1), dtype=np.uint8)
        labels = np.arange(2000) % 10
        names = ("x_train", "y_train", "x_test", "y_test")
        held = (images, labels, images[:100], labels[:100])
        np.savez(file, **dict(zip(names, held, strict=True)))
    settings = [
        f"learning.dataset={str(file)!r}",
        f"learning.upload={upload}",
        f"fleet.num_devices={args.devices}",
        f"rounds.global_rounds={args.rounds}",
        f"learning.evaluate_every={args.rounds + 1}",
    ]
    world = SimulatedWorld(load_scenario("paper/fmnist-iid", settings), 0)
    setup = make_setup(world, engine="stacked", chunk=4, workers=torch.get_num_threads())
    took: list[float] = []
    try:
        train = setup.engine.train

        def counted(models: Tensor, order: TrainingOrder) -> Any:
            began = time.perf_counter()
            found = train(models, order)
            took.append(time.perf_counter() - began)
            return found

        setup.engine.train = counted  # type: ignore[method-assign]
        for _ in simulate_rounds(world, make_policy("ce-fedavg"), Trainer(setup)):
            pass
    finally:
        setup.close()
    return took[2:]


def gpu_share(args: argparse.Namespace) -> dict[str, Any]:
    """What sending takes on a GPU, compiled as training has it and not.

    By itself, and behind other work as in training: there the processor has queued all of it before
    the GPU is done with the local steps, so that only the GPU's own time counts.
    """
    from fedrt.learning.stacked.compiled import compiled_coding

    where = torch.device("cuda")
    found: dict[str, Any] = {"device": torch.cuda.get_device_name()}
    ways = {"compiled": compiled_coding, "eager": lambda tensors: receive_blocks}
    for way, program in ways.items():
        found[f"{way}_numbers_equal"] = check(where, program)
        given = tuple(
            tensor.to(where) for tensor in fleet(args.devices, RESNET20 + 1395, extreme=False)
        )
        given = (*given[:3], given[3][:, :RESNET20].contiguous())
        for name, busy in ((way, torch.ones(8192, 8192, device=where)), (f"{way}_alone", None)):
            work = partial(send, ["int4"] * args.devices, given, program)
            took = [_queued(work, busy) for _ in range(args.repeats + 5)]
            found[name] = summary(took[5:])
            print(f"{found['device']}, {name}: {1000 * found[name]['median_s']:.3f} ms")
    return found


def _queued(work: Callable[[], Any], busy: Tensor | None) -> float:
    """Seconds of some work on a GPU, behind products of a matrix if there is one."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if busy is not None:
        torch.mm(busy, busy)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1000


def gpu_round(args: argparse.Namespace) -> dict[str, Any]:
    """An edge round of ResNet-20 devices on a GPU, with `int4` and without, in turns."""
    training = importlib.import_module("training")
    count, images = args.devices, 10_000
    task = training.Task(
        dataset=training.random_dataset(training.SHAPES["resnet20"], images, 0),
        parts=training.split_evenly(images, count, 0),
        model="resnet20",
        steps=args.steps,
        learning_rate=training.RATES["resnet20"],
        dtype="bfloat16",
        augment=True,
        device="cuda",
    )
    engine, flat = task.engine("stacked")
    states = torch.zeros(count, flat.num_parameters, device="cuda")
    own = {"codec_state": states, "state_row": np.arange(count), "menu": CODEC_NAMES}
    int4 = np.full(count, CODEC_NAMES.index("int4"))
    orders = {"none": task.order(), "int4": replace(task.order(), codec=int4, **own)}
    took: dict[str, list[float]] = {name: [] for name in orders}
    first = flat.state()[None]
    for number in range(3 + args.pairs):
        for name in sorted(orders, reverse=bool(number % 2)):
            seconds = training.seconds_of_round(engine, first, orders[name])
            if number >= 3:
                took[name].append(seconds)
    rounds = {name: summary(seconds) for name, seconds in took.items()}
    both = zip(took["none"], took["int4"], strict=True)
    more_s = float(np.median([coded - plain for plain, coded in both]))
    step_s = rounds["none"]["median_s"] / args.steps
    print(
        f"a round of {args.steps} steps: {1000 * more_s:+.3f} ms with int4 in"
        f" {1000 * rounds['none']['median_s']:.2f} ms, {100 * more_s / step_s:.1f} % of a step"
    )
    share = more_s / step_s
    return {"steps": args.steps, "round": rounds, "more_s": more_s, "share_of_step": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=25_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--devices", type=int, default=72)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a round on a GPU")
    parser.add_argument("--pairs", type=int, default=31, help="of rounds on a GPU")
    parser.add_argument("--only", choices=("bytes", "round", "gpu"))
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {"command": " ".join(sys.argv)}
    result["numbers_equal"] = check(torch.device("cpu"), None)
    print(f"{result['numbers_equal']} numbers are those of the byte form, to the bit")
    if args.only in (None, "bytes"):
        result["bytes"] = bytes_speed(args)
    if args.only in (None, "round"):
        result["round"] = round_share(args)
    if args.only in (None, "gpu") and torch.cuda.is_available():
        result["gpu"] = gpu_share(args)
        result["gpu_round"] = gpu_round(args)
    save(args.save, result)


if __name__ == "__main__":
    main()
