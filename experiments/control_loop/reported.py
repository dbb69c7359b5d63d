# SPDX-License-Identifier: Apache-2.0
"""The messages in which an agent reports curves and counterfactuals of a tenant."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cachepilot.v1 import session_pb2 as wire

from .sampling import GROUPS


def counterfactuals(
    missed: Mapping[str, np.ndarray],
    accessed: float,
    reread_pages: Mapping[str, float],
    size_bytes: int,
    rate: float,
) -> wire.Counterfactuals:
    """Return what each policy of `reread_pages` would have missed so far, group by group.

    `reread_pages` says how many pages a swap to the policy reads again.
    """
    none = np.zeros(GROUPS)
    return wire.Counterfactuals(
        generation=1,
        policies=reread_pages,
        accesses_total=[accessed / GROUPS] * GROUPS,
        misses_total=[v for name in reread_pages for v in missed.get(name, none).tolist()],
        reread_pages=reread_pages.values(),
        size_bytes=size_bytes,
        rate=rate,
    )


def curves(
    told: Mapping[str, Callable[[float], float]],
    sizes_bytes: Sequence[int],
    error_bar: float,
    generation: int,
) -> wire.Curves:
    """Return the curves of all policies in `told` at these sizes."""
    rows = [[curve(size) for size in sizes_bytes] for curve in told.values()]
    flat = [value for row in rows for value in row]
    # As in a real sample, the error of a difference grows with the accesses that hit at one
    # size and miss at the other. All differences together have the error of a single value.
    drops = [a - b for row in rows for a, b in zip((1.0, *row), row, strict=False)]
    return wire.Curves(
        generation=generation,
        policies=told,
        sizes_bytes=sizes_bytes,
        miss_ratio=flat,
        error_bar=[error_bar] * len(flat),
        step_bar=[error_bar * math.sqrt(abs(drop)) for drop in drops],
        sampled=1000,
        rate=0.01,
    )
