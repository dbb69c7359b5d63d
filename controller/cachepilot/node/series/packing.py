# SPDX-License-Identifier: Apache-2.0
"""Points of time series as compressed bytes, and back.

The first byte is the version. The rest is compressed: a line of JSON with the names of the policies
and the number of points, then the times in seconds since the first (single precision), a byte per
point for its policy, and 16 bits per value (see `rings`), point by point.
"""

import json
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cachepilot.domain.past.series import SeriesChunk
from cachepilot.domain.snapshot import FloatArray
from cachepilot.node.series.rings import Codes, decoded

VERSION = b"\x01"
LEVEL = 1
POLICIES_MAX = 256

Points = tuple[list[float], list[str], npt.NDArray[np.float32]]
"""Times, policies and values, shape (points, values)."""


def packed(
    cgroup: str,
    step_s: int,
    names: Sequence[str],
    times: FloatArray,
    policies: Codes,
    codes: Codes,
) -> SeriesChunk:
    """Return a chunk of at least one point; `policies` are indices into `names`."""
    used, index = np.unique(policies, return_inverse=True)
    if len(used) > POLICIES_MAX:
        used, index = used[:POLICIES_MAX], np.minimum(index, POLICIES_MAX - 1)
    known = [names[one] for one in used.tolist()]
    head = json.dumps({"policies": known, "points": len(times)}).encode()
    body = b"".join(
        (
            head,
            b"\n",
            (times - times[0]).astype("<f4").tobytes(),
            index.astype(np.uint8).tobytes(),
            codes.astype("<u2").tobytes(),
        )
    )
    data = VERSION + zlib.compress(body, LEVEL)
    return SeriesChunk(cgroup, step_s, float(times[0]), float(times[-1]), len(times), data)


def unpacked(chunk: SeriesChunk, width: int) -> Points | None:
    """Return the points of a chunk with `width` values each; None if it cannot be read."""
    try:
        if chunk.data[:1] != VERSION:
            return None
        head, _, body = zlib.decompress(chunk.data[1:]).partition(b"\n")
        told = json.loads(head)
        names, count = told["policies"], int(told["points"])
        times = np.frombuffer(body, "<f4", count).astype(np.float64) + chunk.begun_s
        index = np.frombuffer(body, np.uint8, count, 4 * count)
        codes = np.frombuffer(body, "<u2", count * width, 5 * count).reshape(count, width)
        policies = [names[one] for one in index.tolist()]
    except (ValueError, LookupError, TypeError, zlib.error):
        return None
    return times.tolist(), policies, decoded(codes.astype(np.uint16))
