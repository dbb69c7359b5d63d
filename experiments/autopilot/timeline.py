# SPDX-License-Identifier: Apache-2.0
"""What the controller reported of each tenant, sample by sample, and means over windows of it.

A cgroup is `/SIDE/TENANT`: the same tenants run on both sides, which differ in who decides.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any

from cachepilot.api.shapes.views import NodeView, TenantView

DEFAULT = "default"
AUTOPILOT = "autopilot"
SIDES = (DEFAULT, AUTOPILOT)


@dataclass(frozen=True)
class Point:
    """One sample of a tenant. `time_s` counts from the first snapshot of its side."""

    time_s: float
    policy: str
    limit_bytes: int
    current_bytes: int
    hit_ratio: float | None
    throughput_ops: float | None
    latency_p99_us: float | None
    on_trial: bool
    distrust: str = ""
    """Why the controller does not act on its curves; empty if it does."""


@dataclass(frozen=True)
class Window:
    """A stretch of time that is compared, in seconds since the first snapshot of a side."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Summary:
    """A tenant over a window: its most frequent policy, means, and the median of its p99."""

    policy: str
    limit_bytes: float
    hit_ratio: float | None
    throughput_ops: float | None
    latency_p99_us: float | None
    slo_met: float | None
    """Share of samples in which the throughput was at least the SLO; None without an SLO."""
    samples: int


def split(cgroup: str) -> tuple[str, str]:
    """Return side and tenant of a cgroup."""
    side, _, tenant = cgroup.strip("/").partition("/")
    return side, tenant


@dataclass
class Timeline:
    """All samples by side and tenant, in order of time.

    With `origin_s`, in seconds since 1970, times count from then instead of the first snapshot.
    """

    origin_s: float | None = None
    points: dict[tuple[str, str], list[Point]] = field(default_factory=dict)
    _begun_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, nodes: Iterable[NodeView], tenants: Iterable[TenantView]) -> None:
        """Add one look at the controller. A node that sent nothing new is not counted twice."""
        seen = {node.name: node.last_seen_s for node in nodes if node.last_seen_s > 0}
        for tenant in tenants:
            if tenant.node not in seen:
                continue
            side, name = split(tenant.cgroup)
            now_s = seen[tenant.node]
            first_s = now_s if self.origin_s is None else self.origin_s
            time_s = now_s - self._begun_s.setdefault((tenant.node, side), first_s)
            series = self.points.setdefault((side, name), [])
            if series and time_s <= series[-1].time_s:
                continue
            series.append(
                Point(
                    time_s,
                    tenant.policy,
                    tenant.limit_bytes,
                    tenant.current_bytes,
                    tenant.hit_ratio,
                    tenant.throughput_ops,
                    tenant.latency_p99_us,
                    tenant.trial is not None,
                    "" if tenant.trusted else tenant.distrust,
                )
            )

    @property
    def tenants(self) -> list[str]:
        """Names of the tenants, in the order in which they were first seen."""
        return list(dict.fromkeys(tenant for _, tenant in self.points))

    @property
    def last_s(self) -> float:
        """Time of the last sample."""
        return max((series[-1].time_s for series in self.points.values() if series), default=0.0)

    def summary(
        self, side: str, tenant: str, window: Window, slo_ops: float | None
    ) -> Summary | None:
        """Return a tenant's summary over `window`; None if there is no sample in it."""
        series = self.points.get((side, tenant), [])
        inside = [point for point in series if window.from_s <= point.time_s <= window.to_s]
        if not inside:
            return None
        ops = [point.throughput_ops for point in inside if point.throughput_ops is not None]
        hits = [point.hit_ratio for point in inside if point.hit_ratio is not None]
        p99 = [point.latency_p99_us for point in inside if point.latency_p99_us is not None]
        [(policy, _)] = Counter(point.policy for point in inside).most_common(1)
        return Summary(
            policy=policy,
            limit_bytes=fmean(point.limit_bytes for point in inside),
            hit_ratio=fmean(hits) if hits else None,
            throughput_ops=fmean(ops) if ops else None,
            latency_p99_us=median(p99) if p99 else None,
            slo_met=fmean(value >= slo_ops for value in ops) if slo_ops and ops else None,
            samples=len(inside),
        )

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return all samples by `SIDE/TENANT`."""
        return {"/".join(key): [asdict(p) for p in series] for key, series in self.points.items()}
