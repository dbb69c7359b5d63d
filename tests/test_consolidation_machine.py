# SPDX-License-Identifier: Apache-2.0
"""Two guests as two nodes: their orders, and the rows of a literal outcome."""

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from experiments.consolidation.machine import guests, move
from experiments.consolidation.moving.measured import Kept, Outcome
from experiments.workloads.ycsb import compiled

from cachepilot import agent

FUNCTIONS = guests.SCRIPT.with_name("guest_pages.sh")
AGENT = """#!/usr/bin/env bash
echo "$*" >>calls
if [ "$2" = list ]; then echo "0 1 /file"; else grep -q . "${@: -1}"; fi
"""
FOLLOWING = """
set -euo pipefail
say() { :; }
root=$PWD scratch=$PWD/scratch TENANTS_DIR=tenants NAMES="a b"
mkdir -p fleet/a scratch/a tenants
declare -A clients=([a]=1)
. "$1"
listing() {
	follow_pages
	until [ -z "${readers[*]-}" ]; do sleep 0.01 && follow_pages; done
	ls -d fleet/* tenants/* tenants/.a* 2>/dev/null | tr '\n' ' ' || true
	echo
}
echo >tenants/a.list && listing
echo 3145727 >tenants/a.list && listing
unset "clients[a]"
listing
listing
rm tenants/a.warm && listing
true >tenants/a.pages && listing
listing
"""


def _kept(name: str, to_node: str, after_ops: float, met_after: float | None) -> Kept:
    return Kept(
        cgroup=f"/fleet/{name}",
        from_node="left" if name == "lookups" else "right",
        to_node=to_node,
        slo_ops=60.0,
        before_ops=100.0,
        after_ops=after_ops,
        predicted_ops=100.0 if name == "lookups" else None,
        met_before=1.0,
        met_moving=0.9,
        met_after=met_after,
        move_s=20.0 if name == "lookups" else None,
    )


def _outcome(met_after: float | None = 1.0, emptied: tuple[str, ...] = ("left",)) -> Outcome:
    tenants = [_kept("lookups", "right", 90.0, met_after), _kept("pages", "right", 80.0, 1.0)]
    return Outcome("done", "", tenants, 2, list(emptied), 60.0)


def test_rows_have_the_worst_tenant_and_the_error_of_the_moved_one() -> None:
    rows = {row.metric: row for row in move.rows_of([_outcome(), _outcome(0.97)])}
    value = {name.removeprefix("consolidation.machine."): row.value for name, row in rows.items()}
    assert value["hosts_saved.worst"] == 1.0
    assert value["windows_met_pct.after"] == pytest.approx(98.5)
    assert value["windows_met_pct.after.worst"] == pytest.approx(97.0)
    assert value["windows_met_pct.while_moving"] == pytest.approx(90.0)
    assert value["throughput_error.worst"] == pytest.approx(0.1)
    assert rows["consolidation.machine.windows_met_pct.after.worst"].goal == 98.0


def test_a_tenant_missing_at_the_end_met_nothing_and_a_full_node_is_not_saved() -> None:
    rows = {row.metric: row.value for row in move.rows_of([_outcome(None, ())])}
    assert rows["consolidation.machine.windows_met_pct.after.worst"] == 0.0
    assert rows["consolidation.machine.hosts_saved.worst"] == 0.0


def test_a_guest_lists_pages_of_a_leaving_tenant_and_reads_those_of_an_arriving_one(
    tmp_path: Path,
) -> None:
    program = tmp_path / "agent"
    program.write_text(AGENT, "utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", FOLLOWING, "bash", FUNCTIONS],
        cwd=tmp_path,
        env=os.environ | {"AGENT": "./agent"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["fleet/a", "tenants/a.list"],
        ["fleet/a", "tenants/a.pages"],
        ["fleet/a", "tenants/a.warm"],
        ["fleet/a", "tenants/a.warm"],
        [],
        ["fleet/a"],
        [],
    ]
    read = f"pages read --cgroup {tmp_path}/fleet/a tenants/a.pages"
    below = f"--below {tmp_path}/scratch/a"
    listed = f"pages list --cgroup {tmp_path}/fleet/a {below} --most-mib 2"
    assert (tmp_path / "calls").read_text("utf-8").splitlines() == [listed, read, read]


def test_each_guest_has_its_agent_and_sees_the_folders_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "find", lambda _: Path("/bin/agent"))
    monkeypatch.setattr(compiled, "program", lambda: Path("/bin/ycsb"))
    made = guests.Guests(tmp_path, move.NODES, move.BUDGET_BYTES, move.DEVICE, move.RECORDS)
    made.write()
    for node, programs in move.NODES.items():
        told = json.loads((tmp_path / node / "guest.json").read_text())
        assert told["folders"] == [str(made.workloads)]
        assert told["environment"]["TENANTS_DIR"] == str(made.workloads / node)
        assert told["environment"]["NAMES"].split() == ["lookups", "pages", "feeds"]
        config = tomllib.loads((tmp_path / node / "agent.toml").read_text())
        assert (config["node"], config["kernel"]["match"]) == (node, ["fleet/*"])
        for one in programs:
            file = made.workloads / node / f"{one.name}.toml"
            assert tomllib.loads(file.read_text())["cgroup"] == one.cgroup
    stated = tomllib.loads((tmp_path / "controller.toml").read_text())
    assert stated["consolidation"]["folder"] == str(made.workloads)
