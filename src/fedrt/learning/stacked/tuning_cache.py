"""What was measured of a machine, and what a run chose from it, kept in files."""

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
    """What is kept in a file under a key, or what is measured, which is then kept.

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
    """A line if what is known of this machine lies in a file that cannot be read."""
    file = cache_file()
    try:
        if not file.exists() or isinstance(parse_json(read_text(file)), dict):
            return ()
    except (OSError, ValueError, RecursionError, InputError):
        pass
    return (f"note: {file}: is damaged: what it held of this machine is measured anew",)


def read_tuning(kept: Any) -> Tuning:
    """A tuning as it was kept; ValueError or TypeError where it is none: files may be damaged."""
    return Tuning(**kept)


def read_trials(kept: Any) -> Trials:
    """Trials likewise."""
    return Trials(tuple(Trial(**trial) for trial in kept["trials"]))


def cache_file() -> Path:
    """Where what is known of this machine is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fedrt" / "tuning.json"


def machine() -> tuple[object, ...]:
    """What the speed of training depends on besides the job: processor, instructions, library."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = (names or [processor])[0]
    able = torch.backends.cpu.get_cpu_capability()
    limits = tuple(os.environ.get(name, "") for name in INSTRUCTIONS)
    mkldnn = torch.backends.mkldnn.enabled
    return (processor, cores(), torch.get_num_threads(), able, *limits, mkldnn, torch.__version__)
