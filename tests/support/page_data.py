"""What the page's tests share: the size of a small comparison, and reading the page's data."""

from __future__ import annotations

import base64

import numpy as np

from fedrt.cli import main

POLICIES = ["fedrt", "static-r", "static-t", "ce-fedavg", "mll-sgd"]
ROUNDS = 6
KINDS = {"f32": "<f4", "f64": "<f8", "i32": "<i4", "u8": "u1"}


def unpack(packed):
    """The array that the page packed."""
    ((kind, text),) = packed.items()
    return np.frombuffer(base64.b64decode(text), dtype=KINDS[kind])


def report(*words: object) -> int:
    return main(["report", *map(str, words)])
