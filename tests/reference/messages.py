"""Messages written number by number, slowly and obviously."""

from __future__ import annotations

import struct
import zlib

import numpy as np

NAMES = ["float32", "float16", "int8", "int6", "int5", "int4", "int3", "int2", "top-k"]


def scale_of(block: np.ndarray, levels: int) -> np.float32:
    """The greatest absolute number over the number of levels, rounded up to bfloat16."""
    wanted = np.float32(np.abs(block).max()) * np.float32(1 / levels)
    if wanted < np.float32(2.0**-126):
        return np.float32(0)
    short = struct.unpack("<I", struct.pack("<f", wanted))[0] >> 16
    if as_float(short) < wanted:
        short += 1
    while short > 0x7E00 or np.float32(levels) * as_float(short) > np.finfo(np.float32).max:
        short -= 1
    return as_float(short)


def as_float(short: int) -> np.float32:
    """The number that a bfloat16 with these bits is."""
    return np.float32(struct.unpack("<f", struct.pack("<I", short << 16))[0])


@np.errstate(over="ignore")
def rounded(numbers: np.ndarray, bits: int) -> tuple[list[np.float32], list[int], np.ndarray]:
    """The scales, the levels from 0 on, and the decoded numbers of a vector."""
    most = 2 ** (bits - 1) - 1
    scales, codes, decoded = [], [], []
    for start in range(0, len(numbers), 256):
        block = numbers[start : start + 256]
        scale = scale_of(block, most)
        scales.append(scale)
        for x in block:
            level = 0
            if scale > 0:
                level = int(max(-most, min(most, np.rint(x * (np.float32(1) / scale)))))
            codes.append(level + most)
            decoded.append(np.float32(level) * scale)
    return scales, codes, np.array(decoded, dtype=np.float32)


def greatest(numbers: np.ndarray, share: float) -> list[int]:
    """The places of the greatest numbers, rising; of equal ones the first."""
    count = min(len(numbers), max(1, round(share * len(numbers))))
    return sorted(sorted(range(len(numbers)), key=lambda k: (-abs(numbers[k]), k))[:count])


def message(numbers: np.ndarray, codec: str, share: float = 0.01) -> tuple[bytes, np.ndarray]:
    """The message of a vector of float32, and what it decodes to."""
    numbers = np.asarray(numbers, dtype=np.float32)
    if codec == "float32":
        body, decoded = struct.pack(f"<{len(numbers)}f", *numbers), numbers
    elif codec == "float16":
        short = np.array([max(-65504, min(65504, x)) for x in numbers], dtype=np.float16)
        body, decoded = struct.pack(f"<{len(short)}e", *short), short.astype(np.float32)
    elif codec == "top-k":
        places = greatest(numbers, share)
        body = struct.pack(f"<{len(places)}I", *places)
        body += struct.pack(f"<{len(places)}f", *numbers[places])
        decoded = np.zeros_like(numbers)
        decoded[places] = numbers[places]
    else:
        bits = int(codec.removeprefix("int"))
        scales, codes, decoded = rounded(numbers, bits)
        body = b"".join(struct.pack("<f", scale)[2:] for scale in scales)
        whole = sum(code << (k * bits) for k, code in enumerate(codes))
        body += whole.to_bytes(-(-len(codes) * bits // 8), "little")
    front = struct.pack("<2sBBQ", b"FU", 1, NAMES.index(codec), len(numbers))
    return front + struct.pack("<I", zlib.crc32(front + body)) + body, decoded
