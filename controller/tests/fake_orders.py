# SPDX-License-Identifier: Apache-2.0
"""A literal recommendation, and orders that are kept in memory. Nothing in it is measured."""

from abc import abstractmethod

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.errors import ACCEPTABLE
from cachepilot.api.shapes.questions import Applied, Apply, Pin, StatedChange
from cachepilot.api.shapes.views import RecommendationView
from cachepilot.errors import ConflictError

MIB = 1 << 20
NOW_S = 1_790_000_000.0
RECOMMENDATION = RecommendationView(
    policy="s3fifo",
    limit_bytes=192 * MIB,
    lower_bytes=160 * MIB,
    upper_bytes=208 * MIB,
    throughput_ops=6100.0,
    throughput_low_ops=5800.0,
    throughput_high_ops=6400.0,
    present_ops=5240.0,
    at_least_ops=5240.0,
    confidence=0.9999,
    since_s=NOW_S - 90,
)


def require_accepted(what: str, accept_missed_slos: bool) -> None:
    """Refuse an order that misses an SLO, as the controller does."""
    if not accept_missed_slos:
        raise ConflictError(
            f"{what}: SLO throughput_ops would be missed: 5,000 ops/s asked, "
            f"1,650 predicted{ACCEPTABLE}"
        )


class FakeOrders:
    """The part of the fake service that undoes and applies pins."""

    pins: list[Pin]

    @abstractmethod
    def pin(self, pin: Pin, accept_missed_slos: bool = False) -> None: ...

    def last_change(self) -> StatedChange:
        if not self.pins:
            raise UnknownError("undo: there is no change of objectives or pins")
        what = f"pin {self.pins[-1].cgroup}"
        return StatedChange(change=len(self.pins), time_s=NOW_S, what=what)

    def undo(self, change: int | None = None, accept_missed_slos: bool = False) -> StatedChange:
        last = self.last_change()
        if change not in (None, last.change):
            raise ConflictError(f"undo: the last change is {last.change} by now")
        if self.pins[:-1] and (self.pins[-2].limit_bytes or 16 * MIB) < 16 * MIB:
            require_accepted(f"undo {last.change} ({last.what})", accept_missed_slos)
        self.pins.pop()
        return last

    def apply(self, asked: Apply) -> Applied:
        pins = [
            Pin(cgroup=cgroup, node=asked.node, limit_bytes=limit, until_s=4e9)
            for cgroup, limit in asked.limit_bytes.items()
        ]
        for one in pins:
            self.pin(one, asked.accept_missed_slos)
        what = "; ".join(f"pin {one.cgroup}" for one in pins)
        return Applied(change=7, what=what, pins=pins, objectives=[], until_s=4e9)
