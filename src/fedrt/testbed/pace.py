"""What a local step takes on a core: the pace that a testbed holds each device to.

It is what the scenario says of the device, unless a core of this machine is slower. The speed of a
core changes from second to second where it is shared with other machines, and with what runs
beside. So steps are timed on all cores at once, and what is found can be kept nearly always: a
device that is ahead of its pace waits, one that fell behind makes up for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.errors import FedrtError, InputError, reason
from fedrt.scenario import Scenario, load_scenario
from fedrt.system.children import deaf_children
from fedrt.system.files import write_json
from fedrt.system.inputs import parse_json, read_text
from fedrt.system.plugins import allow_from_now
from fedrt.world.fleet import draw_fleet, edge_of_devices

FloatArray = NDArray[np.float64]

FILE = "pace.json"
"""In the folder of a testbed: the pace, which a run that goes on keeps."""
MEASURE_S, PIECE_S = 4.0, 0.2
"""How long steps are timed, and the CPU time of which an average is taken each."""
KEPT, MARGIN = 0.9, 1.2
"""The pace is kept in this part of the pieces, with this margin: in a run more goes on."""
FIRST_STEPS = 3
SAME = 0.01
"""By which part a pace may differ from the scenario's without a word."""
END_S = 300.0
"""Within which all of it has to be done."""


def described_s(scenario: Scenario, seed: int, core_hz: float) -> FloatArray:
    """For each device, the seconds of a local step on a whole core, by the scenario's cycles."""
    cycles = draw_fleet(scenario, seed).cycles_per_sample * scenario.learning.batch_size
    return np.asarray(cycles / core_hz, dtype=np.float64)


def pace_words(pace_s: FloatArray, described: FloatArray) -> str:
    """What devices are held to, in one line."""
    least_s, most_s = pace_s.min(), pace_s.max()
    span = f"{most_s:.4g}" if least_s == most_s else f"{least_s:.4g} to {most_s:.4g}"
    found = f"a local step takes {span} s of a whole core"
    other = np.flatnonzero(~np.isclose(pace_s, described, rtol=SAME))
    if not len(other):
        return f"{found}, as the scenario says"
    n = int(other[0])
    ratio = pace_s[n] / described[n]
    who = "" if len(other) == len(pace_s) else f" of device-{n}"
    return (
        f"{found}: {ratio:.3g} times what the scenario says{who}, which the coordinator will learn"
    )


def pace_of(folder: Path, devices: Sequence[int], seed: int, *, allow_code: bool) -> float:
    """Seconds of a local step on a whole core; measured once, and kept in a testbed's folder.

    Each of the devices trains in a process of its own at the same time: give as many as there are
    cores.
    """
    path = folder / FILE
    if path.exists():
        return _kept(path)
    given = [
        {"scenario": "scenario.toml", "data": f"data/device-{n}.npz", "number": n, "seed": seed}
        for n in devices
    ]
    children: list[subprocess.Popen[str]] = []
    limit = Timer(END_S, _kill, [children])
    limit.start()
    try:
        with deaf_children():  # Ctrl-C is for this process, which ends them
            children += (_start(folder, each | {"allow_code": allow_code}) for each in given)
        for child in children:
            _read(child)
        for child in children:
            _write(child, {})
        pieces = [step_s for child in children for step_s in _read(child)]
    finally:
        limit.cancel()
        _kill(children)
        for child in children:
            child.communicate()
    found = core_step_s(pieces)
    write_json(path, {"core_step_s": found, "pieces_s": pieces})
    return found


def core_step_s(pieces: Sequence[float]) -> float:
    """The pace from measured seconds of steps."""
    return MARGIN * float(np.quantile(pieces, KEPT))


def _kept(path: Path) -> float:
    try:
        found = float(parse_json(read_text(path))["core_step_s"])
    except (OSError, ValueError, TypeError, KeyError):
        found = 0.0
    if not 0 < found < np.inf:
        raise InputError(f"{path}: does not say what a local step takes")
    return found


def _kill(children: Sequence[subprocess.Popen[str]]) -> None:
    for child in children:
        child.kill()


def _start(folder: Path, given: dict[str, Any]) -> subprocess.Popen[str]:
    words = [sys.executable, "-P", "-m", "fedrt.testbed.pace"]
    try:
        child = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise FedrtError(f"a local step could not be measured: {reason(error)}") from None
    _write(child, given)
    return child


def _write(child: subprocess.Popen[str], what: Any) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(what) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        return  # its answer, which does not come, tells


def _read(child: subprocess.Popen[str]) -> Any:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line:
        raise FedrtError("a local step could not be measured: its process has ended")
    answer = json.loads(line)
    if "problems" in answer:
        raise InputError(answer["problems"])
    return answer.get("pieces_s")


def train_and_tell() -> None:
    """Time local steps as a line of standard input says; print when ready, and then the seconds."""
    given = json.loads(sys.stdin.readline())
    allow_from_now(None if given["allow_code"] else frozenset())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a user's model prints is no answer

    def tell(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    try:
        pieces = timed_steps(given, lambda: tell({}))
    except FedrtError as error:
        tell({"problems": error.lines})
        return
    tell({"pieces_s": pieces})


def timed_steps(given: dict[str, Any], ready: Callable[[], None]) -> list[float]:
    """The CPU seconds of local steps, averages over pieces of the time.

    They are timed once another line has come, after `ready` was called.
    """
    from fedrt.learning.remote import EdgeModel, LocalTrainer

    scenario, seed, number = load_scenario(given["scenario"]), given["seed"], given["number"]
    trainer = LocalTrainer.open(scenario, seed, number, Path(given["data"]))
    trainer.threads = 1
    own_edge = int(edge_of_devices(scenario)[number])
    edge = EdgeModel.open(scenario, seed, own_edge, trainer.inputs)
    stamps: list[float] = []

    def train(steps: int) -> float:
        (order,) = edge.orders(0, 0, [number], [steps], None, [trainer.samples])
        stamps.clear()
        began = time.thread_time()
        trainer.train(order, edge.model(), lambda: stamps.append(time.thread_time()))
        trainer.settle(accepted=False)
        return max(stamps[-1] - began, 1e-9) / steps

    train(FIRST_STEPS)
    step_s = train(FIRST_STEPS)
    ready()
    sys.stdin.readline()
    train(int(np.clip(MEASURE_S / step_s, 2, 1e6)))
    return averages(np.diff(stamps), PIECE_S)


def averages(steps_s: np.ndarray[Any, Any], piece_s: float) -> list[float]:
    """The averages of successive values over pieces that sum to `piece_s` or more."""
    found, total, count = [], 0.0, 0
    for value in steps_s.tolist():
        total, count = total + value, count + 1
        if total >= piece_s:
            found.append(total / count)
            total, count = 0.0, 0
    return found or [total / max(count, 1)]


if __name__ == "__main__":
    train_and_tell()
