"""Reads CIFAR-10's Python batches, which are pickles, without executing code in them.

A pickle is a program: it may name any function and call it. This reader knows the handful of names
that a dict of numpy arrays needs and puts inert stand-ins in their place, classes that only keep
what they are given. Every other name ends the reading. Arrays are then made from the bytes kept.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.formats import CIFAR_SHAPE, Samples, check_samples, cifar_images
from fedrt.errors import InputError, reason
from fedrt.validation import shown

TYPES = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8")
ROW = int(np.prod(CIFAR_SHAPE))


class _StandIn:
    """A harmless class that stores the arguments and the state it is given."""

    def __init__(self, *args: Any) -> None:
        self.args = args
        self.state: Any = None

    # Also keeps a pickle from setting other attributes: with this method there, none are set.
    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_StandIn):
    """`_reconstruct(ndarray, (0,), b"b")`, then a state (version, shape, dtype, fortran, bytes)."""

    def array(self) -> NDArray[Any]:
        _, shape, dtype, fortran, raw = self.state
        return _array(raw, dtype, shape, "F" if fortran else "C")


class _FromBuffer(_StandIn):
    """`_frombuffer(bytes, dtype, shape, order)`, how protocol 5 writes an array."""

    def array(self) -> NDArray[Any]:
        raw, dtype, shape, order = self.args
        return _array(raw, dtype, shape, order)


class _Dtype(_StandIn):
    """`dtype(name, align, copy)`, then a state with the byte order second."""

    def dtype(self) -> np.dtype[Any]:
        name = _text(self.args[0]).lstrip("<>|=")
        if name not in TYPES:
            raise ValueError(f"an array of type {name}")
        order = _text(self.state[1]) if self.state else "|"
        return np.dtype(name).newbyteorder(">" if order == ">" else "<")


class _Latin1(_StandIn):
    """`_codecs.encode(text, "latin1")`, how Python 3 writes bytes in old protocols."""

    def bytes(self) -> bytes:
        return str(self.args[0]).encode("latin1")


class _Type(_StandIn):
    """A name that is only passed on, such as `numpy.ndarray`."""


STAND_INS: dict[tuple[str, str], type[_StandIn]] = {
    ("numpy", "ndarray"): _Type,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer,
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer,
    ("_codecs", "encode"): _Latin1,
}


class _Reader(pickle.Unpickler):
    """An unpickler that gives stand-ins for the names above and refuses all others."""

    def find_class(self, module: str, name: str) -> type[_StandIn]:
        try:
            return STAND_INS[module, name]
        except KeyError:
            asked = shown(f"{module}.{name}")[1:-1]
            raise InputError(f"asks for {asked}, which no data needs") from None


def cifar_pickle(raw: bytes, file: object) -> Samples:
    """The samples of a CIFAR-10 python batch: a dict with `data` (n x 3,072) and `labels`."""
    try:
        found = _Reader(io.BytesIO(raw), encoding="bytes").load()
    except InputError as error:
        raise InputError(f"{file}: refused, nothing in it was run: {error}") from None
    except Exception as error:  # a damaged pickle raises whatever its damaged program leads to
        what = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{file}: cannot be read as a pickle, damaged or cut: {what}") from None
    try:
        batch = {_text(key): value for key, value in found.items()}
        data, labels = _plain(batch["data"]), _plain(batch["labels"])
    except Exception as error:  # likewise
        what = f"{type(error).__name__}: {reason(error)}"
        raise InputError(f"{file}: must be a dict with arrays data and labels: {what}") from None
    if data.ndim != 2 or data.shape[1] != ROW or data.dtype != np.uint8:
        has = " x ".join(map(str, data.shape))
        raise InputError(f"{file}: data is {has} of {data.dtype}: must be n x {ROW} of uint8")
    return check_samples(file, cifar_images(data), labels, 10, CIFAR_SHAPE)


def _plain(value: Any) -> NDArray[Any]:
    """An array from a stand-in, or from a list of whole numbers."""
    if isinstance(value, _Array | _FromBuffer):
        return value.array()
    if isinstance(value, list) and all(type(item) is int for item in value):
        return np.array(value, dtype=np.int64)
    raise ValueError("neither an array nor a list of whole numbers")


def _array(raw: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    data = raw.bytes() if isinstance(raw, _Latin1) else raw
    if not isinstance(data, bytes | bytearray):
        raise ValueError("an array without bytes")
    sides = tuple(int(side) for side in shape)
    return np.frombuffer(data, dtype.dtype()).reshape(sides, order=_order(order))


def _order(order: Any) -> Any:
    return "F" if _text(order) == "F" else "C"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii")
    if not isinstance(value, str):
        raise ValueError("a name that is no text")
    return value
