# SPDX-License-Identifier: Apache-2.0
"""Records of runs: every sample, as one JSON file per run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.autopilot.measured.series import Total, mean, rate, rates
from experiments.shared.rows import ROOT

FOLDER = ROOT / "build" / "autopilot" / "runs"
DISK_SHARE_MIN = 0.8
LOAD_MAX = 5.0
"""Largest mean of the one-minute load average, on two cores. A run alone makes 3 to 4. With 6 to 7,
the rest of it idle work, a search that hits most of its pages did half as much.
"""


@dataclass(frozen=True)
class Run:
    """A finished run. Times are the guest's, in seconds since 1970."""

    document: Mapping[str, Any]

    def end_s(self, side: str) -> float:
        """Return when the programs of a side ended: the last second that all of them report.

        A client that had to open its database first is ended before it has reported its last
        second.
        """
        found = self._side(side)
        seconds = float(found["seconds"])
        told = [float(one[-1][0]) for one in found["operations"].values() if len(one) > seconds / 2]
        end_s = float(found["begin_s"]) + seconds
        return min([end_s, *told])

    def window(self, side: str) -> tuple[float, float]:
        """Return the steady seconds of a side."""
        end = self.end_s(side)
        return end - float(self._side(side)["window_s"]), end

    def looks(self, side: str, tenant: str) -> list[Mapping[str, Any]]:
        """Return what the controller reported of a tenant, about once a second."""
        found: list[Mapping[str, Any]] = self._side(side)["looks"].get(tenant, [])
        return found

    def operations(self, side: str, tenant: str) -> list[Total]:
        """Return the operations that the program itself counted; for a search, its passes."""
        return [(at, total) for at, total in self._side(side)["operations"].get(tenant, [])]

    def ops(self, side: str, tenant: str) -> float:
        """Return operations per second of the steady seconds."""
        return rate(self.operations(side, tenant), *self.window(side))

    def seconds(self, side: str, tenant: str) -> list[float]:
        """Return operations per second of each steady second."""
        return rates(self.operations(side, tenant), *self.window(side))

    def reads(self, side: str, tenant: str) -> float:
        """Return read calls per second of the steady seconds, as counted by the kernel."""
        looks = [(one["time_s"], one["throughput_ops"]) for one in self.looks(side, tenant)]
        return mean(looks, *self.window(side))

    @property
    def is_crowded(self) -> bool:
        """Whether the host had too much other work."""
        return fmean(one[1] for one in self.document["load"]) > LOAD_MAX

    @property
    def is_starved(self) -> bool:
        """Whether the guest got so little processor time that processors, not misses, decided.

        On the first side, which has no autopilot, the tenants' reads should keep the disk busy, if
        the run recorded how busy it was.
        """
        first = next(iter(self.document.get("sides", ())), None)
        is_idle = first is not None and self.disk_share(first) < DISK_SHARE_MIN
        return is_idle or self.is_crowded

    def disk_share(self, side: str) -> float:
        """Return the reads of all tenants in the steady seconds over the disk's capacity."""
        looks = self._side(side)["looks"]
        window = self.window(side)
        iops = sum(
            mean(((one["time_s"], one["device_iops"]) for one in series), *window)
            for series in looks.values()
        )
        return iops / float(self.document["world"]["iops"])

    def _side(self, side: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.document["sides"][side]
        return found


def path_of(experiment: str, number: int) -> Path:
    """Return the file of a run."""
    return FOLDER / f"{experiment}-{number}.json"


def write(document: Mapping[str, Any], number: int) -> Path:
    """Write a run to its file, which appears as a whole or not at all."""
    path = path_of(document["experiment"], number)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document) + "\n", "utf-8")
    partial.replace(path)
    return path


def read(experiment: str) -> list[Run]:
    """Return all runs of an experiment, in order of their numbers."""
    paths = sorted(FOLDER.glob(f"{experiment}-*.json"))
    return [Run(json.loads(path.read_text("utf-8"))) for path in paths]


def ycsb_totals(text: str, begin_s: float) -> list[Total]:
    """Return total operations by time, from the YCSB client's output of a line per second.

    The client counts time from when its database was open, which is assumed to be `begin_s`.
    """
    totals, done = [(begin_s, 0.0)], 0.0
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("at") == "second":
            done += found["operations"]
            totals.append((begin_s + found["seconds"], done))
    return totals


def pass_totals(text: str, begin_s: float) -> list[Total]:
    """Return total passes by time, from lines with the time at which each pass ended."""
    ends = []
    for line in text.splitlines():
        try:
            ends.append(float(line))
        except ValueError:
            continue
    return [(begin_s, 0.0), *((at, float(i)) for i, at in enumerate(ends, start=1))]
