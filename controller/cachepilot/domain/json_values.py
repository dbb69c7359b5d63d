# SPDX-License-Identifier: Apache-2.0
"""Encode dataclasses as one line of JSON, and decode them by their annotations.

Arrays are stored as bytes, one after another beside the line. Curves are most of a record, and as
digits or in base64 they took most of the time to write and to compress it.
"""

import math
import types
from base64 import b64decode
from dataclasses import is_dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from cachepilot.errors import InputError

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    InputError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The exceptions that `decode` raises for values that do not fit the type."""
ARRAYS = ("<f4", "<f8", "<i8")
"""The dtypes of arrays that a line may have."""


class RecordError(InputError):
    """A record that cannot be read; names where it came from."""


def encode(value: Any) -> str:
    """Encode a dataclass as one line of JSON; floating-point numbers keep every bit."""
    return to_json(value, fallback=plain).decode()


def plain(value: Any) -> Any:
    """Convert a value that JSON cannot represent to one that it can."""
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"{type(value).__name__}: has no form in JSON")


class Arrays:
    """The bytes of the arrays of a line, `data`, which are written beside it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def plain(self, value: Any) -> Any:
        """Like the function `plain`; an array becomes a reference to its bytes."""
        if not isinstance(value, np.ndarray):
            return plain(value)
        at = len(self.data)
        self.data += value.tobytes()
        return {"kind": value.dtype.str, "shape": value.shape, "at": at}


def _array(value: Any, arrays: bytes) -> npt.NDArray[Any]:
    """Decode an array from the reference that `Arrays` made.

    Earlier versions wrote a list, or base64; both are accepted, too.
    """
    if isinstance(value, list):
        return np.array(value)
    kind, shape = value["kind"], value["shape"]
    if kind not in ARRAYS:
        raise TypeError(f"array: kind: {kind} (allowed: {', '.join(ARRAYS)})")
    if "base64" in value:
        return np.frombuffer(b64decode(value["base64"], validate=True), kind).reshape(shape)
    if min(shape, default=0) < 0:
        raise ValueError(f"array: shape: {shape} (allowed: numbers from 0 on)")
    found: npt.NDArray[Any] = np.frombuffer(arrays, kind, math.prod(shape), value["at"])
    return found.reshape(shape)


def decode(kind: Any, value: Any, arrays: bytes = b"") -> Any:
    """Convert the value that `json.loads` returns for such a line to `kind`, a type of `domain`.

    `arrays` are the `data` of the `Arrays` with which the line was written.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else decode(inner, value, arrays)
    if origin is tuple:
        return tuple(decode(get_args(kind)[0], one, arrays) for one in value)
    if origin is np.ndarray:
        return _array(value, arrays)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        told = {name: decode(hints[name], one, arrays) for name, one in value.items()}
        return kind(**told)  # type: ignore[operator]
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return value
