# SPDX-License-Identifier: Apache-2.0
"""The least number of hosts that tenants need: by their peaks, and by their needs in hindsight."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp


class PackingError(Exception):
    """The tenants do not fit on the hosts at all, or the solver gave up."""


def hosts(sizes_bytes: Sequence[int], host_bytes: int, most: int) -> int:
    """Return the fewest hosts of one size that can take items of these sizes, at most `most`.

    This is bin packing by memory alone, solved to optimality. An item that is larger than a host
    takes one host.
    """
    sizes = np.minimum(np.array(sizes_bytes, dtype=np.float64) / host_bytes, 1.0)
    items, bins = sizes.size, most
    # Variables: whether item i is in bin b, then whether bin b is used.
    count = items * bins + bins
    cost = np.concatenate([np.zeros(items * bins), np.ones(bins)])
    once = np.zeros((items, count))
    for i in range(items):
        once[i, i * bins : (i + 1) * bins] = 1
    fits = np.zeros((bins, count))
    for b in range(bins):
        fits[b, b : items * bins : bins] = sizes
        fits[b, items * bins + b] = -1
    # Identical bins are used in their order, to remove symmetric solutions.
    order = np.zeros((max(0, bins - 1), count))
    for b in range(bins - 1):
        order[b, items * bins + b], order[b, items * bins + b + 1] = -1, 1
    found = milp(
        cost,
        constraints=[
            LinearConstraint(once, 1, 1),
            LinearConstraint(fits, -np.inf, 1e-9),
            LinearConstraint(order, -np.inf, 0),
        ],
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        options={"time_limit": 60},
    )
    if found.x is None:
        raise PackingError(found.message)
    return round(float(found.fun))
