# SPDX-License-Identifier: Apache-2.0
"""On which nodes a path is: a path on several nodes is several tenants.

A tenant that moved is known by its path from the node that it left, as long as its path is on no
other node.
"""

from collections.abc import Collection, Mapping, Set

from cachepilot.node.loop import NodeLoop

Homes = Mapping[str, Set[str]]
"""By cgroup, the nodes that it is on."""


def homes_of(loops: Mapping[str, NodeLoop], cgroups: Set[str]) -> Homes:
    """Those of some cgroups, by the last report of each node.

    A node without a report since the controller began counts by the needs that were stored of it
    last. These may be older than a move, so they count only for cgroups that no report shows.
    """
    stored: dict[str, set[str]] = {}
    shown: dict[str, set[str]] = {}
    for name, loop in loops.items():
        report = loop.report
        there = loop.needs.last() if report is None else report.collected.seen.keys()
        found = stored if report is None else shown
        for cgroup in cgroups & there:
            found.setdefault(cgroup, set()).add(name)
    return stored | shown


def where_now(node: str, cgroup: str, homes: Homes) -> Collection[str]:
    """The nodes where a tenant may be now that was on a node, which is empty if not known."""
    at = homes.get(cgroup, ())
    if node in at:
        return (node,)
    return at if len(at) == 1 or not node else ()
