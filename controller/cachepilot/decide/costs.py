# SPDX-License-Identifier: Apache-2.0
"""Costs of changes of policy: pages that are read again, and what a change may lose."""

import numpy as np

from cachepilot.decide.batch import Batch
from cachepilot.decide.config import DecideConfig
from cachepilot.model.climb import Climbs
from cachepilot.sense.counterfactuals import DEFAULT, Floats

WORST = 2.25
"""Multiple of its stake that an undone change costs: change, rollback, and a quarter until then."""
LEAST_STAKE_S = 4.0
"""Least stake, in seconds of the default's misses. With a smaller one, the noise of an interval or
two would undo the change."""
COLLECTED = 0.35
"""Share of the page cache that only one policy keeps; a change to that policy reads it again."""


def least_share(config: DecideConfig) -> float:
    """The share of the time of an operation that a policy must save to be worth a change."""
    return config.least_gain / (1 + config.least_gain)


def cost_share(before: str, after: str, config: DecideConfig) -> float:
    """The share of the page cache that a change of policy is assumed to read again."""
    gives_up = before not in (DEFAULT, after)
    return max(COLLECTED, config.switch_share) if gives_up else config.switch_share


def reread_pages(now: Batch) -> Floats:
    """Pages that changing to each policy reads again, shape (tenants, policies).

    The entry of the policy in force is what it may still have to read. If the node reports pages to
    read again, those count. Going back to the default reads at most the pages that were displaced
    since it was last in force, where that is known.
    """
    told, index = now.told, now.index
    pages = np.array([one.cache_pages for one in told])[:, None]
    reread = np.array([one.reread for one in told])
    # A change from the default reads about a tenth of the page cache, as measured. So does going
    # back to it after a trial, because trials are short. A confirmed policy had the time to collect
    # pages of its own. Unless the node reports them, COLLECTED is a guess of their share.
    own = np.full(reread.shape, COLLECTED)
    own[index == 0] = own[now.on_trial, 0] = 0.0
    found = np.where(reread.any(axis=1, keepdims=True), reread, own * pages)
    found = np.maximum(found, now.config.switch_share * pages)
    displaced = [np.inf if one.displaced is None else one.displaced for one in now.states]
    away = index != 0
    found[away, 0] = np.minimum(found[away, 0], np.array(displaced)[away])
    return np.asarray(found)


def stakes(now: Batch, cost: Floats, default_rate: Floats) -> Floats:
    """Pages that changing to each policy may lose, shape (tenants, policies).

    A tenant that misses little for its page cache takes long to read it again. A change from the
    default may therefore lose no more than fits into the budget granted in advance, and is undone
    once it has. The same limit applies to the default if the tenant has a change on trial.
    Any other change gives up what the policy in force collected, and its stake is its whole cost.
    So is every stake if less than LEAST_STAKE_S is granted. `cost` is that of `reread_pages`, and
    `default_rate` are the default's misses per second.
    """
    fits_s = now.config.loss_share * now.config.reserve_s / WORST
    if fits_s < LEAST_STAKE_S:
        return cost
    is_granted = np.repeat((now.index == 0)[:, None], cost.shape[1], axis=1)
    is_granted[now.on_trial, 0] = True
    fits = np.where(is_granted, fits_s * default_rate[:, None], np.inf)
    return np.asarray(np.minimum(cost, fits))


def at_load_of(now: Batch, climbs: Climbs, stake: Floats, cost: Floats) -> Floats:
    """Stakes scaled to the load at which the leads were collected, shape (tenants, policies).

    Leads are sums over a longer time, and stakes depend on the present load. If the load falls, a
    lead would exceed its stake for that reason alone. A scaled stake is at most `cost`.
    """
    mean = climbs.accesses / np.maximum(climbs.seconds, 1e-9)
    present = (now.accesses / now.elapsed_s)[:, None]
    load = np.divide(mean, present, out=np.full(mean.shape, np.inf), where=present > 0)
    # Avoids 0 x inf where the present load is 0.
    more = np.where(stake > 0, stake, 1e-300) * np.maximum(load, 1.0)
    return np.asarray(np.minimum(cost, more))
