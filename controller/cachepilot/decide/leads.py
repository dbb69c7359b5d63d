# SPDX-License-Identifier: Apache-2.0
"""What each policy saved against the one in force since it began to gain, and how sure that is."""

from collections.abc import Sequence

import numpy as np

from cachepilot.decide import costs
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.gain import quantiles
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.model.calibration import Ints
from cachepilot.model.climb import Climbs
from cachepilot.sense.counterfactuals import Floats


def cpu_pages(intervals: Sequence[Interval], shape: tuple[int, ...]) -> Floats:
    """CPU time of the BPF programs of each policy, in pages, shape (tenants, policies)."""
    found = np.zeros(shape)
    for row, seen in zip(found, intervals, strict=True):
        if seen.cpu_us is not None:
            row[:] = seen.pages_per_us * seen.cpu_us
    return found


def saved_pages(factors: Floats, raw: Floats, index: Ints, cpu: Floats) -> Floats:
    """Pages that each policy saved against the one in force, shape (tenants, policies, groups).

    `raw` are predicted misses of the same shape, `factors` their calibration and `cpu` the CPU time
    of each policy, shape (tenants, policies). `index` names the policies in force.
    """
    rows = np.arange(len(index))
    found = (factors[rows, index][:, None] * raw[rows, index])[:, None, :]
    found = found - factors[:, :, None] * raw
    # CPU time is spread evenly over the groups, so it adds nothing to the sampling error.
    found += ((cpu[rows, index][:, None] - cpu) / raw.shape[2])[:, :, None]
    return np.asarray(found)


def climbed(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    saved: Floats,
    accesses: Floats,
    rate: Floats,
    config: DecideConfig,
) -> Climbs:
    """What was saved since each policy began to gain, this interval included.

    A policy gains if it saves half of what is worth a change. This reference value, half way
    between no saving and the least worthwhile one, distinguishes the two soonest. For the default
    it is 0, since going back to it needs no least gain.
    """
    climbs = [one.climb for one in states]
    found, elapsed_s = Climbs.of(climbs), intervals[0].elapsed_s
    # If misses take no time, or it is not known how much, every saving counts.
    time_share = np.array([seen.miss_time_share or np.inf for seen in intervals])
    worth = np.zeros(saved.shape[:2])
    worth[:, 1:] = (accesses * costs.least_share(config) / 2 / time_share)[:, None]
    found.take(saved, accesses, rate, elapsed_s, worth)
    found.store(climbs)
    for state in states:
        state.lead_s += elapsed_s
    return found


def looks_of(states: Sequence[PolicyState], looked: Floats, elapsed_s: float) -> Floats:
    """The number of sums among which noise may exceed the bound, shape (tenants, policies).

    It is the number of other policies times that of independent looks in the regime, `looked`
    (Bonferroni). For a confirmed policy that is known to return, the question is not whether it
    ever gains but whether its time has come again. Its looks are those since the policy in force
    became the best.
    """
    others = max(1, looked.shape[1] - 1)
    found = others * looked
    for row, state in zip(found, states, strict=True):
        if not state.leads:
            continue
        at = [i for i, name in enumerate(state.policies) if i and name in state.leads]
        share = min(1.0, state.lead_s / max(elapsed_s * state.climb.looked, elapsed_s))
        row[at] = np.maximum(others, share * row[at])
    return np.asarray(found)


def sure_shares(
    climbs: Climbs,
    variances: Floats,
    looks: Floats,
    cost: Floats,
    may_lose: Floats,
) -> Floats:
    """The share of each policy's saving that is not noise, shape (tenants, policies).

    A sum counts by the share of its square that exceeds the square of a bound (the non-negative
    garrotte, Breiman 1995). Sums that exceed the bound by noise alone may cost `may_lose` pages on
    average, divided among `looks`. A cheap change therefore needs less evidence.
    """
    total = climbs.saved.sum(axis=2)
    chance = np.minimum(0.5, may_lose[:, None] / np.maximum(cost, 1e-9)) / looks
    rises = total > 0
    noise = quantiles(chance[rises], climbs.saved.shape[2]) ** 2 * variances[rises]
    noise *= climbs.unseen()[rises]
    found = np.zeros(total.shape)
    found[rises] = np.maximum(0.0, 1.0 - noise / np.maximum(total[rises], 1e-9) ** 2)
    return found


def mean_leads_s(states: Sequence[PolicyState], shape: tuple[int, ...]) -> Floats:
    """Mean seconds for which each policy stays the best, (tenants, policies); 0 if unknown."""
    found = np.zeros(shape)
    for row, state in zip(found, states, strict=True):
        if state.leads:
            row[:] = state.mean_leads_s()
    return found
