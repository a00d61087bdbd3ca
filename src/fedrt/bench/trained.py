"""What training says of policies: the time to a stated accuracy, and the rows of learned policies.

The numbers are those of committed results, which come with the package in one small file
(`tools/bench_data.py` makes it).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrt.errors import InputError, reason
from fedrt.system.inputs import parse_json, read_text

FILE = Path(__file__).parent / "data" / "trained.json"


def read_trained(policies: Sequence[str], file: Path = FILE) -> dict[str, Any]:
    """The trained subsets, of these policies alone, and the rows of learned policies."""
    try:
        found = parse_json(read_text(file))
        subsets = {
            name: subset | {"policies": {p: subset["policies"].get(p) for p in policies}}
            for name, subset in found["subsets"].items()
        }
        return {"trained": subsets, "learned": list(found["learned"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read: {reason(error)}") from None
