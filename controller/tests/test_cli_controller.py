# SPDX-License-Identifier: Apache-2.0
"""The commands that ask a controller, against a real server on the loopback device.

Their output is compared with snapshots/NAME.txt at a fixed width. With WRITE_SNAPSHOTS=1 in the
environment the files are written instead.
"""

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cli_runs import Run, own, run, service
from fake_service import FakeService, tenant
from rich.console import Console
from served import served

from cachepilot import cli
from cachepilot.api.shapes.changes import ChangeView
from cachepilot.api.shapes.questions import Consolidation
from cachepilot.cli.asking.client import Controller, near
from cachepilot.cli.fleet import status_table
from cachepilot.cli.fleet.history import changes_table, parse_time
from cachepilot.domain.past.change import ChangeKind, ChangeRow, ChangeState

SNAPSHOTS = Path(__file__).parent / "snapshots"
__all__ = ["own", "run", "service"]
"""Imported fixtures."""


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """Share one server among tests that only read."""
    with served(FakeService()) as url:
        yield url


def check_snapshot(name: str, text: str) -> None:
    path = SNAPSHOTS / f"{name}.txt"
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    if os.environ.get("WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "columns", "arguments"),
    [
        ("status", 130, "status"),
        ("status_80", 80, "status --node alpha"),
        ("explain", 100, "explain /db"),
        ("explain_trial", 100, "explain search"),
        ("explain_no_curves", 100, "explain /web"),
        ("history", 160, "history"),
        ("what_if", 130, "plan --what-if --node alpha --budget 2GiB --slo db=6000 --policy db=mru"),
        ("consolidate", 130, "consolidate"),
        ("slo_get", 130, "slo get"),
        ("slo_dry_run", 130, "slo set /web* --hit-ratio 0.9 --policies lfu,mru --dry-run"),
    ],
)
def test_text(run: Run, shared: str, name: str, columns: int, arguments: str) -> None:
    status, out, err = run(shared, *arguments.split(), columns=columns)
    assert (status, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= columns
    check_snapshot(name, out)


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        ("explain /db", "GET", "tenants/detail?cgroup=/db", None),
        ("history /db -n 1", "GET", "changes?cgroup=/db&limit=1", None),
        ("history --event live --by auto --kind memory", "GET", "changes?state=live", None),
        ("history --since 2026-09-21T14:12:30", "GET", "changes?since=1790000000", None),
        ("history --by nobody", "GET", "changes?by=nobody", None),
        ("consolidate", "GET", "consolidation", None),
        ("slo get", "GET", "objectives", None),
        ("plan --what-if --node beta --limit web=64MiB", "POST", "what-if",
         {"node": "beta", "limit_bytes": {"/web": 64 << 20}}),
    ],
)  # fmt: skip
def test_json_is_that_of_the_interface(
    run: Run, shared: str, arguments: str, method: str, path: str, body: object
) -> None:
    status, out, _ = run(shared, *arguments.split(), "--json")
    answer = httpx.request(method, f"{shared}/api/v1/{path}", json=body)
    assert status == 0 and answer.status_code == 200
    assert json.loads(out) == answer.json()


def test_status_as_json(run: Run, shared: str) -> None:
    state = json.loads(run(shared, "status", "--json")[1])
    assert [node["name"] for node in state["nodes"]] == ["alpha", "beta"]
    assert len(state["tenants"]) == 4


def test_objectives_by_command(run: Run, own: str, service: FakeService) -> None:
    assert run(own, "slo", "set", "/db", "--hit-ratio", "0.9", "--unset", "priority")[0] == 0
    changed = service.stated.of("/db")
    assert (changed.throughput_ops, changed.hit_ratio, changed.priority) == (5000, 0.9, 0)
    metric = "http://[::1]:9100/metrics#gets_total"
    assert run(own, "slo", "set", "/w*", "--indicator", metric, "--memory-max", "5%")[0] == 0
    assert service.stated.of("/web").indicator.metric == "gets_total"
    assert run(own, "slo", "delete", "/db", "--dry-run")[0] == 0
    assert len(service.stated.tenants) == 2
    assert run(own, "slo", "delete", "/db")[0] == 0
    assert [one.pattern for one in service.stated.tenants] == ["/w*"]
    assert json.loads(run(own, "slo", "get", "/web", "--json")[1])["cgroup"] == "/w*"
    assert "left alone" in run(own, "slo", "get", "/db")[1]


def test_objectives_by_file(run: Run, own: str, service: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "objectives.toml"
    file.write_text('goal = "least_memory"\n\n[[tenant]]\ncgroup = "/web"\nweight = 2\n')
    before = service.stated
    status, out, _ = run(own, "slo", "apply", str(file), "--dry-run")
    assert status == 0 and "+weight = 2" in out and '-cgroup = "/db"' in out
    assert service.stated == before
    assert run(own, "slo", "apply", str(file))[1].endswith("stored\n")
    assert service.stated.goal == "least_memory" and service.stated.of("/web").weight == 2
    assert run(own, "slo", "apply", str(file))[1] == "nothing changes\n"
    assert run(own, "slo", "get")[1].strip() == file.read_text().strip()


def test_a_recommendation_is_shown_with_its_bounds(run: Run, own: str) -> None:
    told = (
        "s3fifo with 192 MiB (160 MiB to 208 MiB): predicted 6,100 ops/s (95% of intervals "
        "5,800 to 6,400), as it is 5,240; 99.9% sure of at least 5,240 in an interval"
    )
    for command in ("status", "explain /system.slice/batch.service"):
        shown = " ".join(run(own, *command.split())[1].split())
        assert told in shown
    rows = json.loads(run(own, "status", "--json")[1])["tenants"]
    assert [one["recommendation"]["upper_bytes"] for one in rows if one["recommendation"]] == [
        208 << 20
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("explain /bd", "no tenant /bd (near: /db)"),
        ("explain batch", "(near: /system.slice/batch.service)"),
        ("explain zzz --node beta", "no tenant zzz on beta (there are: /web)"),
        ("history nobody", "no tenant nobody (there are: /db, /search"),
        ("status --node gamma", "(allowed: alpha, beta)"),
        ("unpin /db", "pin of /db: there is none"),
        ("revert 9", "change 9: unknown"),
        ("revert 1", "change 1: undone: not in force, or not any more"),
        (
            "history --since yesterday",
            "not a time (allowed: a time ago like 30m",
        ),
        ("slo delete /d", "no objective of /d (near: /db)"),
        ("slo set /db --hit-ratio 2", "hit_ratio: 2.0 is not allowed (allowed: above 0 to 1)"),
        ("slo set /db --mode full", "observe, recommend, auto"),
        ("slo set /db --unset color", "--unset color: not a key (allowed: throughput_ops"),
        ("slo apply nowhere.toml", "nowhere.toml: cannot be read"),
        ("pin /db", "nothing to pin"),
        ("pin /db --limit 1", "--limit 1: a size needs a unit (allowed: bytes like 64MiB, pages"),
        ("pin /db --limit 0.5", "--limit 0.5: a size needs a unit"),
        (
            "pin /db --limit -5MiB",
            "size '-5MiB': not a size (allowed: bytes like 64MiB, pages like 16384pages, or a ",
        ),
        ("pin /db --limit 1.5pages", "size 1.5pages: not whole pages"),
        ("plan --what-if --node alpha --limit /db=64", "--limit 64: a size needs a unit"),
        ("plan --what-if --node alpha --budget 10%", "--budget 10%: a share is of no use here"),
        ("pin /db --limit 5parsecs", "unknown unit 'parsecs'"),
        ("plan", "allowed: plan --what-if"),
        ("plan --what-if", "--node is needed (there are: alpha, beta)"),
        ("plan --what-if --node alpah", "no node alpah (near: alpha)"),
        ("plan --what-if --node alpha --slo /db", "--slo /db: not a pair"),
        ("plan --what-if --node alpha --slo /db=-1", "--slo -1: not a rate"),
        ("explain /a/../b", "TENANT: '/a/../b': . and .. are not names of cgroups"),
        ("slo set /a/../b --weight 2", "CGROUP: '/a/../b': . and .. are not names"),
        (
            "plan --what-if --node alpha --policy /db=lru --policy db=lfu",
            "--policy db: /db is there twice",
        ),
        ("plan --what-if --node alpha --policy /d=x", "no tenant /d on alpha (near: /db"),
        ("controller check-config --config nowhere.toml", "nowhere.toml"),
    ],
)
def test_refusals(run: Run, shared: str, arguments: str, part: str) -> None:
    if arguments.startswith("controller"):
        pytest.importorskip("cachepilot.api.main")
    status, out, err = run(shared, *arguments.split())
    assert (status, out) == (cli.EXIT_BAD_INPUT, "")
    assert err.startswith("cachepilot: error: ") and part in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("http://127.0.0.1:{free}", "no controller at http://127.0.0.1:{free}: start one by"),
        ("127.0.0.1:7071", "--controller 127.0.0.1:7071: not a URL"),
        ("http://a b", "--controller http://a b: not a URL"),
    ],
)
def test_no_controller(run: Run, url: str, part: str) -> None:
    with socket.socket() as bound:
        # The socket is bound but does not listen, so that nobody else can answer there.
        bound.bind(("127.0.0.1", 0))
        free = bound.getsockname()[1]
        status, _, err = run(url.format(free=free), "status")
    assert status == cli.EXIT_BAD_INPUT and part.format(free=free) in err


def test_an_error_of_the_controller_is_one_line_without_details(run: Run) -> None:
    class Failing(FakeService):
        def consolidation(self) -> Consolidation:
            raise KeyError("a secret")

    with served(Failing()) as url:
        status, _, err = run(url, "consolidate")
    assert status == cli.EXIT_BAD_INPUT and "failed with 500: its log says why" in err


def test_similar_names_are_suggested() -> None:
    many = [f"/tenant{i}" for i in range(20)]
    assert near("xyz", many).endswith("and 12 more")
    assert near("x", []) == "there are none"
    assert near("/tenant1x", many).startswith("near: /tenant1")


@pytest.mark.parametrize("command", ["agent", "doctor", "cachestat"])
def test_commands_of_the_agent_are_the_agent(tmp_path: Path, command: str) -> None:
    """The command runs in a child, which becomes the agent: here a script that ends with 7."""
    program = tmp_path / "agent"
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", command, "run", "--help", "-x"],
        env={**os.environ, "CACHEPILOT_AGENT": str(program)},
        check=False,
        capture_output=True,
        text=True,
    )
    words = "run --help -x" if command == "agent" else f"{command} run --help -x"
    assert (done.returncode, done.stdout) == (7, words + "\n")


@pytest.mark.parametrize("form", ["-o json", "--json", "--output json"])
def test_all_options_for_json_print_the_same(run: Run, shared: str, form: str) -> None:
    assert run(shared, "status", *form.split()) == run(shared, "status", "--json")


@pytest.mark.parametrize("command", ["status", "explain /db", "slo get", "consolidate", "history"])
def test_yaml_is_what_json_is(run: Run, shared: str, command: str) -> None:
    status, out, _ = run(shared, *command.split(), "-o", "yaml")
    assert status == 0
    assert yaml.safe_load(out) == json.loads(run(shared, *command.split(), "--json")[1])


def test_wide_leaves_no_column_out(run: Run, shared: str) -> None:
    _, narrow, _ = run(shared, "status", columns=80)
    _, wide, _ = run(shared, "status", "-o", "wide", columns=80)
    assert "last decision" not in narrow and "floor" not in narrow
    assert all(name in wide for name in status_table.COLUMNS)


def test_two_forms_are_refused(run: Run, shared: str) -> None:
    status, _, err = run(shared, "status", "--json", "-o", "yaml")
    assert status == 2 and "--output yaml: --json says otherwise" in err


def test_long_names_stay_apart_at_80_columns(run: Run, own: str, service: FakeService) -> None:
    prefix = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
    names = [f"{prefix}{one}.slice" for one in ("0a1b", "0a1c", "9f00")]
    service.all_tenants = [tenant(name, "lru", 64) for name in names]
    _, out, _ = run(own, "status", columns=80)
    shown = [line.split()[0] for line in out.splitlines() if "lru" in line]
    assert len(set(shown)) == 3
    assert all(one in line for one, line in zip(("0a1b", "0a1c", "9f00"), shown, strict=True))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 999_970.0), ("1.5m", 999_910.0), ("1h", 996_400.0), ("2d", 827_200.0),
        ("1970-01-01T00:01", 60.0), ("1970-01-01T01:00+01:00", 0.0), ("1970-01-02", 86_400.0),
    ],
)  # fmt: skip
def test_a_time_is_so_long_ago_or_one_of_the_calendar(text: str, seconds: float) -> None:
    assert parse_time("--since", text, 1e6) == seconds


def test_an_empty_history_says_whether_something_was_filtered(run: Run, shared: str) -> None:
    assert run(shared, "history", "--by", "nobody")[1] == "no change matches by nobody\n"


def a_change(**values: Any) -> ChangeView:
    row = ChangeRow(ChangeKind.PIN, ChangeState.DONE, "alpha", "/db", 1.0, 2.0)
    return ChangeView.of_row(replace(row, id=31, **values), in_force=False)


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_long_texts_of_the_history_leave_the_other_columns_whole(width: int) -> None:
    rows = [
        a_change(text="limit_bytes: nothing → 64 MiB, " * 5, by="alice, certificate " * 9),
        a_change(cgroup=f"/kubepods.slice/{'x' * 60}", why="all together gain " * 20),
    ]
    out = Console(width=width, file=io.StringIO())
    out.print(changes_table(rows, width))
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    first, second = (line for line in lines if line.startswith(" 31 "))
    assert "01-01 00:00:01" in first and "/db" in first and " done " in first
    assert "limit_b" in first and "xxx" in second


def test_a_terminal_obeys_nothing_that_is_in_a_name(
    run: Run, own: str, service: FakeService
) -> None:
    service.all_tenants = [tenant("/db\x1b[2J\r", "lru", 64)]
    status, out, _ = run(own, "status")
    assert status == 0 and "\x1b" not in out and "/db" in out


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_hold_is_a_number_of_seconds(run: Run, shared: str, seconds: str) -> None:
    arguments = ("plan", "--what-if", "--node", "alpha", "--apply", "--hold-s", seconds)
    status, _, err = run(shared, *arguments, "--slo", "/db=100")
    assert status == 2 and f"--hold-s {seconds}: not seconds" in err


def test_a_controller_that_closes_what_is_idle_is_asked_again() -> None:
    with served(FakeService(), timeout_keep_alive=0) as url:
        controller = Controller(url)
        found = controller.tenants()
        time.sleep(0.3)
        assert controller.tenants() == found
