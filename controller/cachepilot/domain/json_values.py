# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as plain JSON values, and back by their annotations."""

import types
from dataclasses import fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

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


class RecordError(InputError):
    """A record that cannot be read; names where it came from."""


def encode(value: Any) -> Any:
    """Plain JSON values of a dataclass; floating-point numbers keep every bit."""
    if is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [encode(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Fraction) else value


def decode(kind: Any, value: Any) -> Any:
    """Turns plain JSON values into `kind`, a type as the dataclasses of `domain` use them."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else decode(inner, value)
    if origin is tuple:
        return tuple(decode(get_args(kind)[0], one) for one in value)
    if origin is np.ndarray:
        return np.array(value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: decode(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return value
