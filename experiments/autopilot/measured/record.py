# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run: every sample, as one file of JSON per run."""

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
"""Mean of the load average over the last minute, on two cores. A run alone makes 3 to 4; with 6 to
7, the rest of it idle work, a search that hits most of its pages did half as much."""


@dataclass(frozen=True)
class Run:
    """A finished run. Times are the guest's, in seconds since 1970."""

    document: Mapping[str, Any]

    def end_s(self, side: str) -> float:
        """When the programs of a side were over: the last second that all of them tell of.

        A client that had to open its database first is ended before it has told of its last.
        """
        found = self._side(side)
        seconds = float(found["seconds"])
        told = [float(one[-1][0]) for one in found["operations"].values() if len(one) > seconds / 2]
        end_s = float(found["begin_s"]) + seconds
        return min([end_s, *told])

    def window(self, side: str) -> tuple[float, float]:
        """The steady seconds of a side."""
        end = self.end_s(side)
        return end - float(self._side(side)["window_s"]), end

    def looks(self, side: str, tenant: str) -> list[Mapping[str, Any]]:
        """What the controller told of a tenant, about once a second."""
        found: list[Mapping[str, Any]] = self._side(side)["looks"].get(tenant, [])
        return found

    def operations(self, side: str, tenant: str) -> list[Total]:
        """Operations as the program itself counted them; of a search its passes."""
        return [(at, total) for at, total in self._side(side)["operations"].get(tenant, [])]

    def ops(self, side: str, tenant: str) -> float:
        """Operations per second of the steady seconds."""
        return rate(self.operations(side, tenant), *self.window(side))

    def seconds(self, side: str, tenant: str) -> list[float]:
        """Operations per second of each steady second."""
        return rates(self.operations(side, tenant), *self.window(side))

    def reads(self, side: str, tenant: str) -> float:
        """Read calls per second of the steady seconds, as the kernel counted them."""
        looks = [(one["time_s"], one["throughput_ops"]) for one in self.looks(side, tenant)]
        return mean(looks, *self.window(side))

    @property
    def is_crowded(self) -> bool:
        """Whether the host had too much other work."""
        return fmean(one[1] for one in self.document["load"]) > LOAD_MAX

    @property
    def is_starved(self) -> bool:
        """Whether the host gave the guest too little time, so that processors decided, not misses.

        On the first side, which nobody steers, the tenants' reads are to keep the disk busy, where
        a run says how busy it was.
        """
        first = next(iter(self.document.get("sides", ())), None)
        is_idle = first is not None and self.disk_share(first) < DISK_SHARE_MIN
        return is_idle or self.is_crowded

    def disk_share(self, side: str) -> float:
        """Reads of all tenants in the steady seconds, as a share of what the disk can do."""
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
    """Where a run is kept."""
    return FOLDER / f"{experiment}-{number}.json"


def write(document: Mapping[str, Any], number: int) -> Path:
    """Keeps a run; it appears whole or not at all."""
    path = path_of(document["experiment"], number)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document) + "\n", "utf-8")
    partial.replace(path)
    return path


def read(experiment: str) -> list[Run]:
    """All runs of an experiment, in order of their numbers."""
    paths = sorted(FOLDER.glob(f"{experiment}-*.json"))
    return [Run(json.loads(path.read_text("utf-8"))) for path in paths]


def ycsb_totals(text: str, begin_s: float) -> list[Total]:
    """Operations by time from what the YCSB client printed, a line a second.

    The client counts time from when its database was open, which is taken for `begin_s`.
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
    """Passes by time, from lines that are the time at which each ended."""
    ends = []
    for line in text.splitlines():
        try:
            ends.append(float(line))
        except ValueError:
            continue
    return [(begin_s, 0.0), *((at, float(i)) for i, at in enumerate(ends, start=1))]
