# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as one line of JSON, and back by their annotations.

Arrays are their bytes in base64: curves are most of a record, and the digits of every value took
most of the time to write one.
"""

import types
from base64 import b64decode, b64encode
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
"""What `decode` raises for values that are not of the kind."""
ARRAYS = ("<f4", "<f8", "<i8")
"""Kinds of arrays that a line may have."""


class RecordError(InputError):
    """A record that cannot be read; names where it came from."""


def encode(value: Any) -> str:
    """A dataclass as one line of JSON; floating-point numbers keep every bit."""
    return to_json(value, fallback=plain).decode()


def plain(value: Any) -> Any:
    """What JSON has no form for, as something that it has one for."""
    if isinstance(value, np.ndarray):
        data = b64encode(value.tobytes()).decode()
        return {"kind": value.dtype.str, "shape": value.shape, "base64": data}
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"{type(value).__name__}: has no form in JSON")


def _array(value: Any) -> npt.NDArray[Any]:
    """Of what `plain` made of one; or of a list, as earlier versions wrote it."""
    if isinstance(value, list):
        return np.array(value)
    kind = value["kind"]
    if kind not in ARRAYS:
        raise TypeError(f"array: kind: {kind} (allowed: {', '.join(ARRAYS)})")
    flat = np.frombuffer(b64decode(value["base64"], validate=True), kind)
    return flat.reshape(value["shape"])


def decode(kind: Any, value: Any) -> Any:
    """Turns what `json.loads` makes of such a line into `kind`, a type as `domain` uses them."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else decode(inner, value)
    if origin is tuple:
        return tuple(decode(get_args(kind)[0], one) for one in value)
    if origin is np.ndarray:
        return _array(value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: decode(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return value
