# SPDX-License-Identifier: Apache-2.0
"""Donors that gave memory by certain knowledge: their loss counts when the change is judged."""

import math
from dataclasses import dataclass, replace

import pytest
from memory_node import MIB, Node, Tenant, worth

from cachepilot.decide.memory.interval import MemoryTenant
from cachepilot.decide.memory.state import Member, MemoryChange
from cachepilot.domain.decisions import Event, Reading


def of_miss(miss: float) -> float:
    """Return the log throughput at a miss ratio."""
    return -math.log(0.05 + miss)


@dataclass
class Certain(Tenant):
    """A tenant whose curve has low confidence. It hits 8% above `least_mib`, and nothing below."""

    least_mib: float = 64.0
    hits: float = 0.08

    def seen(self, noise: float) -> MemoryTenant:
        limit, planned = self.limit_mib * MIB, self.planned_mib * MIB
        hits = self.hits if self.limit_mib > self.least_mib else 0.0

        def miss_at(at: float) -> float:
            """Return the certain miss ratio, which is that of the hits at the present limit."""
            return 1.0 - hits if at >= limit else 1.0

        return replace(
            super().seen(noise), is_certain=True, error_at=lambda _: 0.0,
            reread_at=lambda _: 0.01, miss_at=miss_at,
            worth_at=lambda at: of_miss(miss_at(at)), worth_of=lambda miss, _: of_miss(miss),
            worth_now=of_miss(miss_at(limit)), worth_planned=of_miss(miss_at(planned)),
            worth_measured=of_miss(1.0 - hits) + noise,
        )  # fmt: skip


@dataclass
class Calibrated(Tenant):
    """A tenant whose curve agrees with the measurement at its first limit."""

    def seen(self, noise: float) -> MemoryTenant:
        found = super().seen(noise)
        off = worth(128.0, self.knee_mib) - worth(128.0, self.told_mib)
        return replace(
            found, worth_at=lambda at: worth(at / MIB, self.told_mib) + off,
            worth_now=found.worth_now + off, worth_planned=found.worth_planned + off,
        )  # fmt: skip


@pytest.mark.parametrize(("knee_mib", "is_kept"), [(1300.0, False), (500.0, True)])
def test_what_a_donor_hit_when_it_gave_counts_though_it_hits_nothing_now(
    knee_mib: float, is_kept: bool
) -> None:
    """The taker gains more or less than the donor loses. Its curve predicts more than either."""
    node = Node(
        Calibrated(knee_mib, 400.0, planned_mib=192.0), Certain(400.0, 400.0, planned_mib=64.0)
    )
    node.begin()
    gained = worth(192.0, knee_mib) - worth(128.0, knee_mib)
    assert (gained > of_miss(0.92) - of_miss(1.0) > 0) is is_kept
    assert node.run(60)[0] is (Event.KEPT if is_kept else Event.REVERTED)


@pytest.mark.parametrize("is_needed", [False, True])
def test_what_a_need_took_of_a_donor_is_no_loss_by_the_change_for_gain(is_needed: bool) -> None:
    """`/1` gave 32 MiB for the gain of `/0`, and 32 MiB with all its hits for the need of `/2`."""
    node = Node(
        Tenant(400.0, 400.0, 160.0, 160.0),
        Certain(400.0, 400.0, 64.0, 64.0, least_mib=96.0, hits=0.4),
        Tenant(400.0, 400.0, 160.0, 160.0),
    )
    change = node.state.change = MemoryChange(0.0, 0.0, forced=is_needed)
    read = Reading(1.0, 0.5), Reading(1.0, 0.5)

    def member(start_mib: int, end_mib: int, meant_mib: int) -> Member:
        meant = meant_mib * MIB if is_needed else None
        return Member(1, "default", start_mib * MIB, end_mib * MIB, *read, meant_bytes=meant)

    donor = member(128 if is_needed else 96, 64, 96)
    donor.gave_certain, donor.certain_miss = True, 0.6 if is_needed else 1.0
    change.members = {"/0": member(128, 160, 160), "/1": donor}
    if is_needed:
        change.members["/2"] = Member(1, "default", 128 * MIB, 160 * MIB, *read)
    assert node.run(40)[0] is Event.KEPT
