"""FEMNIST as LEAF writes it: JSON files of users, each with 784 grey values a sample and labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.formats import GREY_SHAPE, Samples, check_labels, join, read_bytes
from fedrt.errors import InputError, reason
from fedrt.validation import shown

CLASSES = 62
PIXELS = int(np.prod(GREY_SHAPE))


def leaf_files(folder: Path) -> list[Path]:
    """LEAF's JSON files under a folder, in a fixed order; empty if there are none."""
    for base in (folder, folder / "data"):
        files = [
            path for part in ("train", "test") for path in sorted((base / part).glob("*.json"))
        ]
        files = files or sorted((base / "all_data").glob("*.json"))
        files = files or sorted(base.glob("*.json" if base != folder else "all_data*.json"))
        if files:
            return files
    return []


def read_leaf(files: Sequence[Path]) -> Samples:
    """All samples, ordered by the writer's name; a writer may be in several files.

    Grey values from 0 to 1 become bytes, as they were before LEAF divided them by 255.
    """
    parts: dict[str, list[Samples]] = {}
    for file in files:
        for name, samples in _read_file(file).items():
            parts.setdefault(name, []).append(samples)
    if not parts:
        raise InputError(f"{files[0].parent}: has LEAF files without any sample")
    writers = []
    for number, name in enumerate(sorted(parts)):
        part = join(parts[name])
        writers.append(Samples(part.images, part.labels, np.full(len(part.labels), number)))
    return join(writers)


def _read_file(file: Path) -> dict[str, Samples]:
    try:
        table = json.loads(read_bytes(file))
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{file}: is not JSON, or cut short: {reason(error)}") from None
    users = table.get("user_data") if isinstance(table, dict) else None
    if not isinstance(users, dict) or not isinstance(table.get("users"), list):
        raise InputError(f"{file}: must be LEAF's JSON with users and user_data")
    listed = table["users"]
    if len(listed) != len(users) or any(not isinstance(name, str) for name in listed):
        raise InputError(f"{file}: users must be the names in user_data")
    found = {
        name: _read_user(f"{file}: user_data.{shown(name)[1:-1]}", users[name])
        for name in sorted(users)
    }
    return {name: samples for name, samples in found.items() if len(samples.labels)}


def _read_user(where: str, user: Any) -> Samples:
    if not isinstance(user, dict) or "x" not in user or "y" not in user:
        raise InputError(f"{where}: must have x and y")
    labels, pixels = _numbers(f"{where}.y", user["y"]), _numbers(f"{where}.x", user["x"])
    if not labels.size and not pixels.size:
        return Samples(np.empty((0, *GREY_SHAPE), np.uint8), np.empty(0, np.int64))
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        has = " x ".join(map(str, pixels.shape))
        raise InputError(f"{where}.x is {has}: must be n x {PIXELS}")
    if not ((pixels >= 0) & (pixels <= 1)).all():
        raise InputError(f"{where}.x: must be grey values from 0 to 1")
    if not (labels == np.floor(labels)).all():
        raise InputError(f"{where}.y: must be whole numbers")
    images = np.rint(pixels * 255).astype(np.uint8).reshape(-1, *GREY_SHAPE)
    return Samples(images, check_labels(where, labels.astype(np.int64), len(images), CLASSES))


def _numbers(where: str, value: Any) -> NDArray[np.float64]:
    """An array from a list, or a list of lists, of numbers."""
    try:
        array = np.array(value)
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"{where}: must be lists of numbers, all of one length") from None
    known = isinstance(value, list) and array.dtype.kind in "iuf"
    if not known or not (np.abs(array) < 1e9).all():
        raise InputError(f"{where}: must be a list of finite numbers")
    return array.astype(np.float64)
