# SPDX-License-Identifier: Apache-2.0
"""A path on several nodes is several tenants."""

from cachepilot.fleet.tenants.homes import where_now

HOMES = {"/agent": {"b", "c"}, "/web": {"b"}}


def test_what_is_known_of_a_tenant_counts_on_its_node_or_on_the_one_that_it_moved_to() -> None:
    assert set(where_now("b", "/agent", HOMES)) == {"b"}
    assert set(where_now("a", "/web", HOMES)) == {"b"}
    assert not where_now("a", "/agent", HOMES), "it may be either"
    assert set(where_now("", "/agent", HOMES)) == {"b", "c"}, "of whom that is was not stored"
    assert not where_now("a", "/gone", HOMES)
