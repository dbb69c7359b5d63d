# SPDX-License-Identifier: Apache-2.0
"""Pages of tenants, which the controller searches and sorts, and the sums of the fleet."""

from collections.abc import Iterator
from typing import Any

import pytest
from fake_service import MIB, FakeService, slo, tenant
from starlette.testclient import TestClient

from cachepilot.api.app import create_app
from cachepilot.api.fleet_view import Only, select

HERE = "http://localhost"


def _tenants() -> list[Any]:
    found = []
    for number in range(250):
        slos = [slo("throughput_ops", 100, 50 + number)] if number % 10 == 0 else []
        more = {
            "throughput_ops": None if number == 7 else float(number * 37 % 250),
            "slos": slos,
            "initial_limit_bytes": 100 * MIB,
            "pinned_policy": "mru" if number == 3 else None,
        }
        name = f"/fleet/t{number:03}"
        row = tenant(name, "lfu" if number % 2 else "mru", 64, "alpha" if number < 200 else "beta")
        found.append(row.model_copy(update=more))
    return found


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(create_app(FakeService(all_tenants=_tenants())), HERE) as found:
        yield found


def _names(client: TestClient, **parameters: Any) -> tuple[list[str], int]:
    answer = client.get("/api/v1/tenants", params=parameters)
    assert answer.status_code == 200, answer.text
    return [one["cgroup"] for one in answer.json()], int(answer.headers["x-total-count"])


def test_pages_cover_all_tenants_once(client: TestClient) -> None:
    whole, total = _names(client)
    assert (len(whole), total) == (250, 250)
    pages = [_names(client, offset=offset, limit=60) for offset in range(0, 300, 60)]
    assert [name for page, _ in pages for name in page] == whole
    assert {count for _, count in pages} == {250}


def test_words_are_looked_for_in_node_cgroup_and_policy(client: TestClient) -> None:
    assert _names(client, search="T00 LFU")[0] == [f"/fleet/t00{n}" for n in (1, 3, 5, 7, 9)]
    assert _names(client, search="beta mru", limit=2)[1] == 25
    assert _names(client, search="nowhere") == ([], 0)


@pytest.mark.parametrize("falling", [False, True])
def test_unknown_values_are_last_in_either_order(client: TestClient, falling: bool) -> None:
    rows = client.get("/api/v1/tenants", params={"sort": "throughput_ops", "falling": falling})
    values = [one["throughput_ops"] for one in rows.json()]
    assert values[-1] is None
    assert values[:-1] == sorted(values[:-1], reverse=falling)


@pytest.mark.parametrize(
    "sort",
    ["cgroup", "node", "policy", "limit_bytes", "hit_ratio", "attainment", "last_decision_s"],
)
def test_every_order_keeps_every_tenant(client: TestClient, sort: str) -> None:
    assert sorted(_names(client, sort=sort)[0]) == _names(client)[0]


def test_kinds_of_tenants(client: TestClient) -> None:
    assert _names(client, only="slo")[1] == 25
    assert _names(client, only="missed")[0] == [f"/fleet/t{n:03}" for n in range(0, 50, 10)]
    assert _names(client, only="pinned")[0] == ["/fleet/t003"]
    assert _names(client, only="trial")[1] == _names(client, only="untrusted")[1] == 0


def test_a_filter_reads_only_the_attributes_that_it_needs() -> None:
    class Pinned:
        """A row with only the attributes that `pinned` needs."""

        pinned_policy, pinned_limit_bytes = "mru", None

    rows: list[Any] = [Pinned(), Pinned()]
    assert select(rows) == rows
    assert select(rows, only=Only.PINNED) == rows


def test_the_fleet_in_sums(client: TestClient) -> None:
    found = client.get("/api/v1/fleet").json()
    assert (found["nodes"], found["connected"], found["frozen"], found["tenants"]) == (2, 1, 1, 250)
    assert (found["slos"], found["slos_met"]) == (25, 20)
    assert found["saved_bytes"] == 250 * 36 * MIB
    assert found["attainment"] == pytest.approx((20 * 0.994 + 5 * 0.61) / 25)


@pytest.mark.parametrize(
    "bad",
    [{"sort": "color"}, {"limit": 0}, {"limit": 1001}, {"offset": -1}, {"search": "x" * 257}],
)
def test_invalid_parameters_are_refused_by_name(client: TestClient, bad: dict[str, Any]) -> None:
    answer = client.get("/api/v1/tenants", params=bad)
    assert answer.status_code == 422 and next(iter(bad)) in answer.json()["error"]


def test_decisions_by_event_and_page(client: TestClient) -> None:
    path = "/api/v1/history"
    assert [one["id"] for one in client.get(path, params={"event": "trial"}).json()] == [2]
    assert client.get(path, params={"event": "none"}).status_code == 422
    assert client.get(path, params={"before": 0}).status_code == 422
