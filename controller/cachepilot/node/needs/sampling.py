# SPDX-License-Identifier: Apache-2.0
"""Samples what the tenants of a node need now, for consolidation."""

import logging

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.node.needs.node_needs import NodeNeeds
from cachepilot.plan.consolidation.least.past import needs_now
from cachepilot.plan.consolidation.least.uncorrected import sure_snapshot
from cachepilot.plan.problem.config import Config
from cachepilot.sense.collect import Collected

LOG = logging.getLogger(__name__)


def sample(
    needs: NodeNeeds, collected: Collected, stated: Objectives, config: Config, now_s: float
) -> None:
    """Take a sample of what tenants need. If that fails, the next one is taken when it is due."""
    try:
        found = needs_now(sure_snapshot(collected), stated, config)
    except Exception:
        # The other work after a cycle continues.
        LOG.exception(
            "node %s: it is not known what its tenants need", collected.snapshot.node.name
        )
        needs.miss(now_s)
        return
    regimes = {cgroup: one.wire.phase for cgroup, one in collected.seen.items()}
    needs.take(now_s, found, regimes)
