# SPDX-License-Identifier: Apache-2.0
"""The nodes on which a cgroup path exists; the same path on several nodes means several tenants.

A tenant that moved is recognised by its path, provided that the path is on one node only.
"""

from collections.abc import Collection, Mapping, Set

from cachepilot.node.loop import NodeLoop

Homes = Mapping[str, Set[str]]
"""The nodes on which each cgroup exists, by cgroup."""


def homes_of(loops: Mapping[str, NodeLoop], cgroups: Set[str]) -> Homes:
    """Return the nodes of the given cgroups, by the last report of each node.

    For a node without a report since the controller started, the needs stored last are used
    instead. They may date from before a move, so they count only for cgroups that no report
    contains.
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
    """Return the nodes where a tenant that was on `node` may be now; `node` is "" if not known.

    The result is `node` itself if the path is still there, else the only node with that path. It is
    empty if several nodes or none have the path. If `node` is not known, it is every node that has
    the path.
    """
    at = homes.get(cgroup, ())
    if node in at:
        return (node,)
    return at if len(at) == 1 or not node else ()
