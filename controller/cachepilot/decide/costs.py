# SPDX-License-Identifier: Apache-2.0
"""What changes of policy cost: pages that are read again, and what may be lost by them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import PolicyState
from cachepilot.model.calibration import Ints
from cachepilot.model.climb import Climbs
from cachepilot.sense.counterfactuals import DEFAULT, Counterfactual, Floats

WORST = 2.25
"""Times its stake: what an undone change loses there and back, and a quarter until judged."""
LEAST_STAKE_S = 4.0
"""Of the default's misses. What may lose less is undone by the noise of an interval or two."""
COLLECTED = 0.35
"""Of the page cache: what a policy keeps of its own, and has to collect after a change to it."""


def least_share(config: DecideConfig) -> float:
    """Of the time of an operation: what a policy has to save to be worth a change."""
    return config.least_gain / (1 + config.least_gain)


def cost_share(before: str, after: str, config: DecideConfig) -> float:
    """Of the page cache: what a change of policy is taken to read more than no change."""
    gives_up = before not in (DEFAULT, after)
    return max(COLLECTED, config.switch_share) if gives_up else config.switch_share


def displaced_pages(states: Sequence[PolicyState]) -> Floats:
    """Pages read since the default was in force, by tenant; inf where that is not known."""
    return np.array([np.inf if one.displaced is None else one.displaced for one in states])


def reread_pages(
    told: Sequence[Counterfactual],
    index: Ints,
    on_trial: NDArray[np.bool_],
    displaced: Floats,
    config: DecideConfig,
) -> Floats:
    """Pages that changing to each policy reads again, shape (tenants, policies).

    Of the policy in force it is what that may yet have to read. The default reads no more again
    than was `displaced` since it was in force.
    """
    pages = np.array([one.cache_pages for one in told])[:, None]
    reread = np.array([one.reread for one in told])
    # Coming from the default reads about the tenth that is measured of it, and so does going back
    # to it after a trial, which is short. What giving up a policy reads that had the time to
    # collect is guessed by what that keeps of its own, where nobody tells.
    own = np.full(reread.shape, COLLECTED)
    own[index == 0] = own[on_trial, 0] = 0.0
    found = np.where(reread.any(axis=1, keepdims=True), reread, own * pages)
    found = np.maximum(found, config.switch_share * pages)
    away = index != 0
    found[away, 0] = np.minimum(found[away, 0], displaced[away])
    return np.asarray(found)


def stakes(
    cost: Floats,
    default_rate: Floats,
    index: Ints,
    on_trial: NDArray[np.bool_],
    config: DecideConfig,
) -> Floats:
    """Pages that changing to each policy may lose, shape (tenants, policies).

    A page cache that is large for what the tenant misses takes long to be read again. From the
    default no more may be lost than fits into what is granted beforehand: the change is undone
    before. So is one that is `on_trial`: for the default it is what the change from it may lose.
    What another policy filled the page cache with is given up by a change: that has its whole cost.
    So has every change where hardly anything is granted. `default_rate` are the default's misses
    per second.
    """
    fits_s = config.loss_share * config.reserve_s / WORST
    if fits_s < LEAST_STAKE_S:
        return cost
    is_granted = np.repeat((index == 0)[:, None], cost.shape[1], axis=1)
    is_granted[on_trial, 0] = True
    fits = np.where(is_granted, fits_s * default_rate[:, None], np.inf)
    return np.asarray(np.minimum(cost, fits))


def at_load_of(climbs: Climbs, stake: Floats, cost: Floats, accesses_per_s: Floats) -> Floats:
    """Stakes at the load of the time over which leads are sums, which are compared with them.

    Else a lead would exceed its stake by nothing but a load that falls.
    """
    now, mean = accesses_per_s[:, None], climbs.accesses / np.maximum(climbs.seconds, 1e-9)
    load = np.divide(mean, now, out=np.full(mean.shape, np.inf), where=now > 0)
    # As a load of infinity has no stake of 0.
    more = np.where(stake > 0, stake, 1e-300) * np.maximum(load, 1.0)
    return np.asarray(np.minimum(cost, more))
