# SPDX-License-Identifier: Apache-2.0
"""The same path on several nodes means several tenants."""

from types import SimpleNamespace

from cachepilot.fleet.tenants.homes import homes_of, where_now

HOMES = {"/agent": {"b", "c"}, "/web": {"b"}}


def test_past_needs_of_a_tenant_count_on_its_node_or_its_new_node() -> None:
    assert set(where_now("b", "/agent", HOMES)) == {"b"}
    assert set(where_now("a", "/web", HOMES)) == {"b"}
    assert not where_now("a", "/agent", HOMES), "it may be either"
    assert set(where_now("", "/agent", HOMES)) == {"b", "c"}, "of whom that is was not stored"
    assert not where_now("a", "/gone", HOMES)


def _loop(stored: set[str], shown: set[str] | None) -> SimpleNamespace:
    """Return a node with these stored needs. Its report shows `shown`; None means no report."""
    seen = SimpleNamespace(seen=dict.fromkeys(shown or ()))
    report = None if shown is None else SimpleNamespace(collected=seen)
    return SimpleNamespace(needs=SimpleNamespace(last=lambda: stored), report=report)


def test_stored_needs_place_a_tenant_only_where_no_report_shows_it() -> None:
    """`/web` left `a`, which was switched off. Then the controller started again."""
    loops = {
        "a": _loop({"/web", "/db"}, None),
        "b": _loop(set(), {"/web", "/agent"}),
        "c": _loop({"/db"}, {"/agent"}),
    }
    found = homes_of(loops, {"/web", "/db", "/agent"})  # type: ignore[arg-type]
    assert found == {"/web": {"b"}, "/db": {"a"}, "/agent": {"b", "c"}}
    assert set(where_now("a", "/web", found)) == {"b"}
