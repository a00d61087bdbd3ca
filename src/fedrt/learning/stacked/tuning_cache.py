"""Files that hold measurements of a machine, and the tuning that a run chose."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedrt.errors import FedrtError, InputError
from fedrt.learning.stacked.tuning import Trial, Trials, Tuning
from fedrt.system.files import write_json
from fedrt.system.inputs import parse_json, read_text
from fedrt.system.machine import cores

Kept = TypeVar("Kept", Tuning, Trials)

INSTRUCTIONS = (
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
)
"""Variables that restrict what a processor does; torch says itself what it makes of its own."""


def remembered(
    file: Path, key: str, measure: Callable[[], Kept], read: Callable[[Any], Kept]
) -> Kept:
    """The value saved in a file under a key, or a newly measured one, which is then saved.

    A file that cannot be read or written is no reason to stop.
    """
    kept: dict[str, Any] = {}
    try:
        kept = dict(parse_json(read_text(file)))
        return read(kept[key])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InputError):
        found = measure()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**kept, key: asdict(found)})
    except (OSError, FedrtError):
        pass
    return found


def cache_note() -> tuple[str, ...]:
    """A note if the file with this machine's measurements cannot be read."""
    file = cache_file()
    try:
        if not file.exists() or isinstance(parse_json(read_text(file)), dict):
            return ()
    except (OSError, ValueError, RecursionError, InputError):
        pass
    return (f"note: {file}: is damaged: what it held of this machine is measured anew",)


def read_tuning(kept: Any) -> Tuning:
    """A saved tuning; ValueError or TypeError if the data are damaged."""
    return Tuning(**kept)


def read_trials(kept: Any) -> Trials:
    """Saved measurements; ValueError or TypeError if the data are damaged."""
    return Trials(tuple(Trial(**trial) for trial in kept["trials"]))


def cache_file() -> Path:
    """The file with this machine's measurements."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fedrt" / "tuning.json"


def machine() -> tuple[object, ...]:
    """A description of what the speed of training depends on: processor and library."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = (names or [processor])[0]
    able = torch.backends.cpu.get_cpu_capability()
    limits = tuple(os.environ.get(name, "") for name in INSTRUCTIONS)
    mkldnn = torch.backends.mkldnn.enabled
    return (processor, cores(), torch.get_num_threads(), able, *limits, mkldnn, torch.__version__)
