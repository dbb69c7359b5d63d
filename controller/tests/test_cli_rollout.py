# SPDX-License-Identifier: Apache-2.0
"""`consolidate --apply`, `--rollout` and `--stop`, against a real server on loopback."""

import json

import fake_plans
import pytest
from cli_runs import Run, own, run, service
from fake_service import FakeService

from cachepilot import cli

__all__ = ["own", "run", "service"]
"""Imported fixtures."""


def test_moving_tenants_shows_what_it_costs_and_needs_yes(
    run: Run, own: str, service: FakeService
) -> None:
    status, out, err = run(own, "consolidate", "--apply")
    assert (status, out, service.moving.asked) == (cli.EXIT_BAD_INPUT, "", [])
    assert "beta: 1 tenants move, which frees" in err and "are read again" in err
    assert "/web goes to alpha" in err and "allowed: with --yes" in err
    status, out, _ = run(own, "consolidate", "--apply", "--yes")
    assert status == 0 and out.startswith("rollout 1 began")
    drains = service.moving.asked[0].drains
    assert drains == service.consolidation().drains, "what was shown is what is done"
    status, _, err = run(own, "consolidate", "--apply", "--yes")
    assert status == cli.EXIT_BAD_INPUT and "rollout 1 runs" in err


def test_only_a_node_that_can_be_drained_is_accepted(
    run: Run, own: str, service: FakeService
) -> None:
    status, _, err = run(own, "consolidate", "--apply", "--node", "alpha", "--yes")
    assert status == cli.EXIT_BAD_INPUT and "--node alpha" in err and "allowed: beta" in err
    assert run(own, "consolidate", "--apply", "--node", "beta", "--yes")[0] == 0


@pytest.mark.parametrize("is_empty", [True, False])
def test_nothing_to_drain_is_no_failure(
    run: Run, own: str, service: FakeService, monkeypatch: pytest.MonkeyPatch, is_empty: bool
) -> None:
    """A timer asks for this every night, even when everything is packed."""
    found = service.consolidation()
    (drain,) = found.drains
    empty = [drain.model_copy(update={"moves": ()})] if is_empty else []
    packed = found.model_copy(update={"drains": empty})
    monkeypatch.setattr(fake_plans, "consolidation", lambda _: packed)
    status, out, _ = run(own, "consolidate", "--apply", "--yes")
    assert (status, out) == (0, "no tenant has to move\n")
    assert run(own, "consolidate", "--apply", "--yes", "--json")[1] == "null\n"
    status, _, err = run(own, "consolidate", "--apply", "--yes", "--node", "beta")
    assert (status == 0) == is_empty and ("--node beta: it cannot be drained" in err) != is_empty
    assert not service.moving.asked


def test_empty_nodes_are_left_out_of_a_drain(
    run: Run, own: str, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = service.consolidation()
    (drain,) = found.drains
    empty = drain.model_copy(update={"node": "gamma", "moves": ()})
    both = found.model_copy(update={"drains": [empty, drain]})
    monkeypatch.setattr(fake_plans, "consolidation", lambda _: both)
    assert run(own, "consolidate", "--apply", "--yes")[0] == 0
    assert service.moving.asked[0].drains == [drain]


def test_a_rollout_is_shown_with_what_was_measured(run: Run, own: str) -> None:
    status, _, err = run(own, "consolidate", "--rollout")
    assert status == cli.EXIT_BAD_INPUT and "no rollout was begun yet" in err
    run(own, "consolidate", "--apply", "--yes")
    assert "rollout 1: running; nodes drained: none" in run(own, "consolidate", "--rollout")[1]
    _, out, _ = run(own, "consolidate", "--rollout", columns=160)
    assert "15 of 15 windows met, 1 of 1 keep" in out and "19.5" in out and "980" in out
    assert "rollout 1: done; nodes drained: beta" in out
    assert "/web goes to alpha, not to gamma" in out
    assert "beta: the rehearsal was passed at 2026-09-21 14:13:38 UTC: 15 of 15 windows met" in out
    status, out, _ = run(own, "consolidate", "--rollout", "--json")
    assert status == 0 and json.loads(out)["moves"][0]["state"] == "kept"


def test_a_rollout_is_stopped(run: Run, own: str) -> None:
    assert "no rollout runs" in run(own, "consolidate", "--stop")[2]
    run(own, "consolidate", "--apply", "--yes")
    status, out, _ = run(own, "consolidate", "--stop")
    assert status == 0 and out.startswith("rollout 1 stops")


def test_tenants_are_spread_as_it_was_shown(run: Run, own: str, service: FakeService) -> None:
    _, out, _ = run(own, "consolidate", "--spread", columns=200)
    assert "1. the tenants of beta needed 64 MiB more than it has at 08:15 UTC a day ago" in out
    assert "/web goes to alpha: gets 200 MiB under lfu; needs 80 MiB now and 240 MiB at" in out
    status, _, err = run(own, "consolidate", "--spread", "--apply", "--node", "alpha", "--yes")
    assert status == cli.EXIT_BAD_INPUT and "allowed: beta" in err
    status, out, err = run(own, "consolidate", "--spread", "--apply", "--yes")
    assert status == 0 and out.startswith("rollout 1 began")
    assert "beta: 1 tenants move; " in err
    (asked,) = service.moving.asked
    assert asked.spreads and asked.drains == service.spread().drains
    assert "rollout 1: running; tenants moved: 0 of 1" in run(own, "consolidate", "--rollout")[1]
    assert "rollout 1: done; tenants moved: 1 of 1" in run(own, "consolidate", "--rollout")[1]


def test_nothing_to_spread_is_no_failure(run: Run, own: str, service: FakeService) -> None:
    service.short = False
    status, out, err = run(own, "consolidate", "--spread", "--apply", "--yes")
    assert (status, out) == (0, "no tenant has to move\n")
    assert "note: what tenants needed a day ago counts" in err and not service.moving.asked
    assert "no tenant has to move" in run(own, "consolidate", "--spread")[1]


def test_a_node_that_stays_short_is_a_failure(run: Run, own: str, service: FakeService) -> None:
    service.roomy = False
    told = "the tenants of beta needed 64 MiB more than it has at 08:15 UTC a day ago; no node has"
    for node in ([], ["--node", "beta"]):
        status, out, err = run(own, "consolidate", "--spread", "--apply", "--yes", *node)
        assert (status, out) == (cli.EXIT_BAD_INPUT, "") and told in err
        assert not service.moving.asked
    assert told in run(own, "consolidate", "--spread", columns=200)[1]


def test_the_reason_why_no_tenant_leaves_a_node_is_shown(
    run: Run, own: str, service: FakeService
) -> None:
    service.short = False
    status, _, err = run(own, "consolidate", "--spread", "--apply", "--yes", "--node", "beta")
    assert status == cli.EXIT_BAD_INPUT and "note: what tenants needed a day ago counts" in err
    assert "--node beta: no shortage is known of it (allowed: none)" in err


@pytest.mark.parametrize(
    "options",
    [["--apply", "--stop"], ["--node", "beta"], ["--yes"], ["--spread", "--rollout"]],
)
def test_options_that_do_not_belong_together_are_refused(
    run: Run, own: str, options: list[str]
) -> None:
    assert run(own, "consolidate", *options)[0] == cli.EXIT_BAD_INPUT
