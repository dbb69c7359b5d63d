# SPDX-License-Identifier: Apache-2.0
"""The columns of `top`: each column's text, and its sort key."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.asking.client import workload_name
from cachepilot.cli.fleet.status_table import shown_prediction, slo_text
from cachepilot.cli.terminal import formats
from cachepilot.sizes import human_bytes

VERDICTS = re.compile(r"\b(met|missed)\b")


@dataclass(frozen=True)
class Column:
    """One column; `order` returns the sort key of a row, None if unknown."""

    name: str
    text: Callable[[TenantView], str | Text]
    order: Callable[[TenantView], Any]
    is_number: bool = False
    is_largest_first: bool = False


def name_of(tenant: TenantView) -> str:
    """Return the tenant's Kubernetes name, or its cgroup."""
    return workload_name(tenant.workload) or tenant.cgroup


def _worst_attainment(tenant: TenantView) -> float | None:
    """Return a sort key: tenants with a missed SLO first, then by their lowest attainment."""
    known = [-1.0 if one.met is False else one.attainment for one in tenant.slos]
    return min((one for one in known if one is not None), default=None)


def _number(
    name: str, text: Callable[[TenantView], str], order: Callable[[TenantView], Any]
) -> Column:
    return Column(name, text, order, is_number=True, is_largest_first=True)


COLUMNS = (
    Column("tenant", name_of, name_of),
    Column("node", lambda one: one.node, lambda one: one.node),
    Column("policy", lambda one: one.policy, lambda one: one.policy),
    _number("limit", lambda one: formats.limit(one.limit_bytes), lambda one: one.limit_bytes),
    _number("in use", lambda one: human_bytes(one.current_bytes), lambda one: one.current_bytes),
    _number("hits", lambda one: formats.share(one.hit_ratio), lambda one: one.hit_ratio),
    _number("ops/s", lambda one: formats.count(one.throughput_ops), lambda one: one.throughput_ops),
    _number(
        "p99 us", lambda one: formats.count(one.latency_p99_us), lambda one: one.latency_p99_us
    ),
    Column("SLOs", lambda one: Text(", ").join(map(slo_text, one.slos)), _worst_attainment),
    Column(
        "last decision",
        lambda one: one.last_decision,
        lambda one: one.last_decision_s,
        is_largest_first=True,
    ),
)


def matches(tenant: TenantView, words: str) -> bool:
    """Whether the tenant's names, node, policy or SLOs contain each of the words, as shown.

    `met` and `missed` concern measurements; after the word `predicted` they concern predictions.
    """
    names = f"{name_of(tenant)} {tenant.cgroup} {tenant.node} {tenant.policy}".lower()
    verdicts = " ".join(one.verdict for one in tenant.slos)
    predicted = " ".join(map(shown_prediction, tenant.slos)).lower()
    unmeasured = VERDICTS.sub("", predicted)
    first, start, rest = words.lower().partition("predicted")
    texts = (first, f"{names} {verdicts} {unmeasured}"), (start + rest, f"{names} {predicted}")
    return all(word.rstrip(",") in text for part, text in texts for word in part.split())


def ordered(tenants: Sequence[TenantView], by: Column, is_reversed: bool) -> list[TenantView]:
    """Sort by a column; unknown values come last in either direction, ties by name."""
    known = [one for one in tenants if by.order(one) is not None]
    unknown = [one for one in tenants if by.order(one) is None]
    named = sorted(known, key=lambda one: (name_of(one), one.node))
    found = sorted(named, key=by.order, reverse=by.is_largest_first != is_reversed)
    return found + sorted(unknown, key=lambda one: (name_of(one), one.node))
