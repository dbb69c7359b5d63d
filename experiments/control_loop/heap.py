# SPDX-License-Identifier: Apache-2.0
"""Measures the memory that the loop of a node keeps per tenant.

It adds the heap bytes in use, as counted by glibc, and the blocks that Python keeps for small
objects, as counted by Python. Arrays, protobuf messages and objects are all included. The store's
cache is not: it is bounded for the whole controller.
"""

import ctypes
import gc
import re
import subprocess
import sys

from experiments.shared.rows import ROOT

from .cycle import Cycles, looped, step
from .node import CANDIDATES, Node

TENANTS = (20, 100)
CYCLES = 140
"""More cycles than every time window for which the loop keeps data."""
BLOCKS = re.compile(r"# bytes in allocated blocks\s*=\s*([\d,]+)")
KIB = 1024


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h in glibc 2.33 and later."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _in_use_bytes() -> int:
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd)


def _kept_bytes(tenants: int) -> int:
    """Return the heap bytes in use after the loop of a node has run for some cycles.

    The node itself is deleted before.
    """
    node = Node(1000, tenants, CANDIDATES)
    with looped(node.hello) as (loop, store):
        for _ in range(CYCLES):
            step(loop, node, Cycles())
        store.close()
        del node
        found = _in_use_bytes()
        # Writes to standard error only.
        sys._debugmallocstats()
        return found


def kib_per_tenant() -> float:
    """Return the slope of the memory between few and many tenants, in KiB."""
    few, many = (_measured(tenants) for tenants in TENANTS)
    return (many - few) / (TENANTS[1] - TENANTS[0]) / KIB


def _measured(tenants: int) -> int:
    command = [sys.executable, "-m", "experiments.control_loop.heap", str(tenants)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = BLOCKS.search(done.stderr)
    if found is None:
        raise RuntimeError("this Python does not report the memory of its small objects")
    return int(done.stdout) + int(found[1].replace(",", ""))


if __name__ == "__main__":
    print(_kept_bytes(int(sys.argv[1])))
