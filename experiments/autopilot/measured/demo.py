# SPDX-License-Identifier: Apache-2.0
"""Measures what `make run NODE=vm` shows: whether the SLO is met, and what other tenants keep."""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from experiments.autopilot import comparison, scenario
from experiments.autopilot.measured.record import Run
from experiments.autopilot.watching import DemoError
from experiments.autopilot.ways import WAYS, play
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import Row, commit, machine

from cachepilot.api.shapes.views import TenantView

NAME = "demo"
SLO_WINDOWS_PCT = 95.0
KEEP_MIN = 0.9
HALVES = 2
LOAD_SECONDS = 20.0


def run() -> dict[str, Any]:
    """Run the scenario in a guest. Return its table, every sample, and the host's load.

    Raises ChildError when a part of it ended too early, DemoError when a part sent nothing new or a
    tenant was not seen in both halves of both sides, InputError without an agent.
    """
    chosen = scenario.real()
    folder = Path(tempfile.mkdtemp(prefix=f"cachepilot-{NAME}-"))
    began = time.time()
    loads: list[list[float]] = []

    def watch(_tenants: list[TenantView], _seconds: float) -> None:
        if not loads or time.time() - loads[-1][0] > LOAD_SECONDS:
            loads.append([time.time(), *os.getloadavg()])

    timeline = play(WAYS["vm"], chosen, folder, False, say, nullcontext(watch))
    found = comparison.rows(timeline, chosen.windows(timeline.last_s), chosen.slos)
    if len(found) != HALVES * len(chosen.tenants):
        raise DemoError(f"{len(found)} rows, not {HALVES} of {len(chosen.tenants)} tenants")
    return {
        "experiment": NAME,
        "commit": commit(),
        "machine": machine(),
        "began_s": began,
        "lasted_s": time.time() - began,
        "load": loads,
        "world": asdict(chosen),
        "rows": comparison.as_json(found),
        "samples": timeline.as_json(),
    }


def _ratio(row: Mapping[str, Any]) -> float:
    """Return a tenant's throughput in one half, divided by that on the default's side."""
    return float(row["autopilot"]["throughput_ops"]) / float(row["default"]["throughput_ops"])


def slo_windows_pct(one: Run) -> float:
    """Return the percentage of control intervals that met the SLO, in the worse half."""
    rows = one.document["rows"]
    met = [float(row["autopilot"]["slo_met"]) for row in rows if row["slo_ops"] is not None]
    return 100 * min(met)


def keep_min(one: Run) -> float:
    """Return the least ratio of any tenant without an SLO, in either half."""
    return min(_ratio(row) for row in one.document["rows"] if row["slo_ops"] is None)


def sum_log(one: Run) -> float:
    """Return the sum of the logarithms of the ratios of all tenants in both halves."""
    return sum(log(_ratio(row)) for row in one.document["rows"])


def rows(runs: Sequence[Run]) -> list[Row]:
    """Return `autopilot.demo.*`, with one value per run."""
    default = "the kernel's default at equal limits"
    before = [row for one in runs for row in one.document["rows"] if row["slo_ops"] is not None]
    return [
        *Row.worst_of(
            "autopilot.demo.slo_windows_pct",
            [slo_windows_pct(one) for one in runs],
            "%",
            better="higher",
            goal=SLO_WINDOWS_PCT,
            reference=f"{default}, of the same half; seconds in which the SLO was met",
            reference_value=100 * median(row["default"]["slo_met"] for row in before),
        ),
        *Row.worst_of(
            "autopilot.demo.keep_min",
            [keep_min(one) for one in runs],
            "ratio",
            better="higher",
            goal=KEEP_MIN,
            reference=f"{default}; the tenant without an SLO that fares worst in either half",
        ),
        *Row.worst_of(
            "autopilot.demo.sum_log",
            [sum_log(one) for one in runs],
            "log",
            better="higher",
            goal=0.0,
            reference=f"{default}; sum over tenants and both halves",
        ),
    ]
