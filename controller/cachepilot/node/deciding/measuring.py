# SPDX-License-Identifier: Apache-2.0
"""What one snapshot says of each tenant before the plan is made: first memory and calibration."""

from dataclasses import dataclass

from cachepilot.decide.state import is_settling
from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.units import US_PER_S
from cachepilot.model.limit_calibration import NOTHING_DONE, Done
from cachepilot.node.deciding import first_memory
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.sense.collect import Seen
from cachepilot.sizes import PAGE_BYTES


def first_memory_of(state: TenantState, recent: Recent, seen: Seen) -> int | None:
    """Follow a tenant's first memory; return its limit if an operator set a new one."""
    state.held_bytes = seen.held_bytes
    changed = first_memory.set_by_operator(recent, seen)
    first = state.held_first_bytes or first_memory.found_bytes(seen)
    first = first_memory.grown_bytes(seen, first)
    state.held_first_bytes = changed or first
    return changed


@dataclass(frozen=True)
class Interval:
    """The interval of one snapshot. `elapsed_s` are the seconds that count; see `Clock`.

    `miss_cost_us` is the time of a device read, `half_life_s` that of calibrations in force.
    """

    time_s: float
    elapsed_s: float
    is_gap: bool
    miss_cost_us: float
    half_life_s: float

    def take(self, seen: Seen, state: TenantState, recent: Recent, objective: Objective) -> None:
        """Take in miss ratios, of the first memory too, and calibrate the curve."""
        policy = seen.tenant.policy
        is_known = not (self.is_gap or seen.is_filling)
        recent.turnover.take(policy, seen.limit_bytes, seen.pages, is_known)
        is_first = abs(seen.limit_bytes - state.held_first_bytes) < PAGE_BYTES
        is_known = is_known and is_first and not is_settling(state.policy)
        pages = seen.pages if is_known else None
        anew, phase = recent.turnover.miss_ratio, seen.wire.phase
        recent.at_first.take(policy, phase, pages, anew, self.elapsed_s, self.half_life_s)
        if not self.is_gap:
            self._calibrate(seen, state, objective)

    def _calibrate(self, seen: Seen, state: TenantState, objective: Objective) -> None:
        """Calibrate the curve with the measured miss ratio, if the page cache is settled.

        The time that operations took is calibrated too, except for a tenant with a hit ratio SLO. A
        new regime drops the calibration of the regime before, and what is known of the reads per
        missed page of policies that are not in force.
        """
        policy, pages, told = seen.tenant.policy, seen.pages, None
        if seen.wire.phase > state.limits_regime:
            state.limits.forget()
            if state.policy.is_shown(self.time_s):
                state.reads_per_miss.forget_all_but(policy)
        state.limits_regime = seen.wire.phase
        if pages is not None and not seen.is_filling:
            state.reads_per_miss.follow(policy, pages, self.elapsed_s, self.half_life_s)
        if seen.measured is not None:
            told = seen.measured.miss_at(policy, seen.limit_bytes)
        if told is None or pages is None or pages.accesses <= 0 or self.elapsed_s <= 0:
            return
        if seen.tenant.trust.trusted and not seen.is_filling and not is_settling(state.policy):
            done = NOTHING_DONE
            if objective.hit_ratio is None:
                done = _done(seen, self.miss_cost_us, self.elapsed_s)
            state.limits.follow(policy)
            limit, half_life_s = seen.limit_bytes, self.half_life_s
            state.limits.take(limit, pages[:2], told, self.elapsed_s, half_life_s, done)


def _done(seen: Seen, miss_cost_us: float, elapsed_s: float) -> Done:
    """What a tenant did in an interval, in the model's terms: operations, time, misses."""
    sample = seen.sample
    if sample is None:
        return NOTHING_DONE
    ops, read_us = sample.ops * elapsed_s, sample.device_read_us or miss_cost_us
    time_us = US_PER_S * seen.tenant.demand.concurrency * elapsed_s
    return Done(ops, time_us, ops * read_us, ops * read_us * sample.miss_ratio)
