# SPDX-License-Identifier: Apache-2.0
"""The consolidation of the fake controller: where tenants would go. Nothing in it is planned."""

from collections.abc import Sequence

from cachepilot.api.shapes.questions import Consolidation, Drain, LeastMemory, Move, Spread
from cachepilot.api.shapes.views import TenantView

MIB = 1 << 20


def consolidation(tenants: Sequence[TenantView]) -> Consolidation:
    more = {"/web": 1.5}
    return Consolidation(
        nodes=2,
        tenants=[
            LeastMemory(
                node=row.node,
                cgroup=row.cgroup,
                policy=row.policy,
                limit_bytes=row.limit_bytes,
                least_policy="lfu",
                least_bytes=int(row.limit_bytes * more.get(row.cgroup, 0.5)),
                has_slo=row.cgroup in ("/db", "/search"),
                known=row.cgroup != "/web",
                kept=row.cgroup != "/search",
                more_of_this_kind=2,
            )
            for row in tenants
        ],
        drains=[
            Drain(
                node="beta",
                moves=(
                    Move(
                        cgroup="/web",
                        from_node="beta",
                        to_node="alpha",
                        limit_bytes=96 * MIB,
                        policy="lfu",
                        predicted_ops=4200.0,
                        cold_pages=16384,
                        cold_s=8.0,
                        why="alpha has room: 20% of its memory stays free",
                        peak_bytes=240 * MIB,
                        peak_s=1.8e9,
                        cpus=0.25,
                    ),
                ),
                freed_bytes=512 * MIB,
            )
        ],
        notes=["beta was last seen 40 s ago"],
    )


def spread(tenants: Sequence[TenantView], short: bool, roomy: bool) -> Spread:
    why = "the tenants of beta needed 64 MiB more than it has at 08:15 UTC a day ago"
    told = "what tenants needed a day ago counts"
    moves = tuple(
        one.model_copy(update={"limit_bytes": 200 * MIB, "need_bytes": 80 * MIB})
        for one in consolidation(tenants).drains[0].moves
    )
    drain = Drain(node="beta", moves=moves, freed_bytes=0, why=why)
    left = {"beta": why} if short and not roomy else {}
    return Spread(drains=[drain] if short and roomy else [], notes=[told], left=left)
