# SPDX-License-Identifier: Apache-2.0
"""The agent on Debian's kernel: it sees and sizes tenants, and reports what it cannot do.

The plans of a scripted controller ask for things that are refused, done or lost, as the test needs.
"""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted_controller import Controller, Story, until

from cachepilot import agent
from cachepilot.v1 import session_pb2 as wire
from cachepilot.vm import Machine, Result, run

HERE = Path(__file__).parent
MIB = 1 << 20
FILE_PAGES = 24 * 256
LIMIT, RAISED = 16 * MIB, 40 * MIB
HOST = "10.0.2.2"
NETWORK = ("-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0")
ACCESSES = ("random", "mapped", "sends", "whole", "elsewhere", "removes", "reclaims")
# As in pages_guest.py.
PAGES_LISTED = [
    "0 1 /mnt/scratch/pages/mapped",
    "64 32 /mnt/scratch/pages/mapped",
    "1023 1 /mnt/scratch/pages/mapped",
    "10 20 /mnt/scratch/pages/read by calls",
    "100 1 /mnt/scratch/pages/read by calls",
    "500 300 /mnt/scratch/pages/read by calls",
]
PAGES = 34 + 321
NO_SPLICES = "splices: the kernel has no filemap_splice_read"

Told = dict[str, Any]


def story() -> Story:
    """Ask for a policy, for a limit down and up, and, after lost events, for no limit.

    This kernel cannot have a policy.
    """
    yield from until(lambda seen: seen.counters.accesses_total > FILE_PAGES)
    yield {"policy": "lfu"}
    yield {"limit_bytes": LIMIT}
    yield from until(lambda seen: seen.limit_bytes == seen.target_limit_bytes == LIMIT)
    yield {"limit_bytes": RAISED}
    yield from until(lambda seen: seen.distrust.endswith("of the sampled events were dropped"))
    yield {"limit_bytes": 0}


def of_one() -> Story:
    """Run the story for /t-a alone. Nothing is requested for the other tenant."""
    told = story()
    wish = next(told)
    while True:
        tenant = yield wish
        try:
            wish = told.send(tenant) if tenant.cgroup == "/t-a" else None
        except StopIteration:
            return


def write_config(folder: Path, port: int) -> Path:
    """Write the configuration of an agent that detects what this kernel can do."""
    path = folder / "agent.toml"
    path.write_text(
        f"""node = "guest"
controller = "http://{HOST}:{port}"
insecure = true
kind = "auto"
state_dir = "/tmp/agent"
metrics = ""
connect_timeout_ms = 60000
plan_timeout_ms = 60000
apply_timeout_ms = 10000
stuck_timeout_ms = 600000
[kernel]
match = ["t-*"]
budget_bytes = {64 * MIB}
margin_bytes = {2 * MIB}
step_bytes = {4 * MIB}
ring_bytes = 65536
""",
        "utf-8",
    )
    return path


@pytest.fixture(scope="module")
def seen(
    debian_kernel: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Controller, Result]:
    """Return what the controller and the guest saw, in one boot."""
    assert debian_kernel.is_dir()
    folder = tmp_path_factory.mktemp("stock")
    program = agent.find(os.environ)
    # One CPU: with several, the emulator fails on code that the kernel patches.
    machine = Machine(
        kernel="debian",
        cpus=1,
        shares=(folder,),
        disk_bytes=256 * MIB,
        environment=agent.environment_for(program, os.environ),
        qemu=NETWORK,
        timeout_seconds=900,
    )
    script = HERE / "stock_guest.py"
    with Controller(of_one) as controller:
        config = write_config(folder, controller.port)
        words = ["/usr/bin/python3", script, program, config, folder, *ACCESSES]
        result = run(machine, [str(word) for word in words])
    assert result.returncode == 0, result.output[-2000:] + result.errors
    return controller, result


@pytest.fixture(scope="module")
def controller(seen: tuple[Controller, Result]) -> Controller:
    return seen[0]


@pytest.fixture(scope="module")
def steps(seen: tuple[Controller, Result]) -> dict[str, Told]:
    lines = map(json.loads, seen[1].output.splitlines())
    return {line["step"]: line for line in lines}


def test_doctor_names_what_is_missing_and_what_to_do(steps: dict[str, Told]) -> None:
    told = steps["doctor"]
    assert (told["status"], told["healthy"]) == (0, True)
    without = {name: check for name, check in told["checks"].items() if check["status"] != "works"}
    assert {name: check["status"] for name, check in without.items()} == {
        name: "without" for name in ("cache_ext", "splices", "policies", "systemd")
    }
    assert without["splices"]["detail"] == NO_SPLICES
    for name in ("cache_ext", "policies"):
        assert "cache_ext" in without[name]["detail"]
        assert "docs/operating/kernel.md" in without[name]["next_step"]


# accesses, misses, readahead pages, those through mappings, read calls
EXPECTED = {"random": (2000, 1000, 0, 0, 2000), "mapped": (512, 512, 0, 512, 0)}


@pytest.mark.parametrize("step", EXPECTED)
def test_accesses_are_counted_to_the_page(steps: dict[str, Told], step: str) -> None:
    told = steps[step]
    keys = ("accesses", "misses", "readahead_pages", "mmap_accesses", "read_calls")
    assert tuple(told[key] for key in keys) == EXPECTED[step]


def test_only_the_splices_are_missing_and_counted_as_reads(steps: dict[str, Told]) -> None:
    assert steps["sends"]["accesses"] == 16
    for step in ACCESSES:
        told = steps[step]
        assert told["missing"] == [NO_SPLICES]
        assert told["dropped_events"] == told["unsampled_pages"] == told["untracked_calls"] == 0
        assert told["records"] == told["accesses"]


def test_whole_reads_pages_of_others_and_removed_pages_are_reported(
    steps: dict[str, Told],
) -> None:
    assert steps["whole"]["read_calls"] == 1 and steps["whole"]["accesses"] == 4096
    assert {step: steps[step]["elsewhere"] for step in ACCESSES} == dict.fromkeys(ACCESSES, 0) | {
        "elsewhere": 100
    }
    assert steps["removes"]["removals"] == 450


def test_evictions_and_refaults_are_the_kernels_own(steps: dict[str, Told]) -> None:
    told = steps["reclaims"]
    assert told["evictions"] == told["stat"]["pgsteal"] >= 2048
    assert told["refaults"] == told["stat"]["workingset_refault_file"] > 1000


def test_pages_in_memory_are_listed_to_the_page(steps: dict[str, Told]) -> None:
    told = steps["listed"]
    assert told["lines"] == PAGES_LISTED
    assert "1 deleted files" in told["said"]
    assert steps["below"]["said"].startswith(f"{PAGES} pages (1.4 MiB) of 2 files")


def test_a_bound_on_a_list_is_kept(steps: dict[str, Told]) -> None:
    told = steps["most"]
    assert 0 < sum(int(line.split()[1]) for line in told["lines"]) < PAGES
    pages = int(told["said"].split()[0])
    assert 256 - 32 < pages <= 256
    assert "pages beyond --most-mib" in told["said"]


def test_pages_of_a_list_are_read_and_charged_to_the_cgroup(steps: dict[str, Told]) -> None:
    skipped = {"missing": 0, "not_regular": 0, "failed": 0, "first_failure": None}
    assert steps["past_end"]["answer"] == {"pages": 0, "past_end": 2, **skipped}
    told = steps["read"]
    assert told["answer"] == {"pages": PAGES, "past_end": 0, **skipped}
    assert told["charged_pages"] == PAGES
    assert steps["again"]["lines"] == PAGES_LISTED


def test_the_agent_says_that_there_are_no_policies(controller: Controller) -> None:
    hello = controller.hello
    assert (hello.kind, list(hello.policies)) == ("stock", [])
    assert {"limits", "curves", "reads", "misses", "evictions"} <= set(hello.capabilities)
    assert not {"policies", "splices"} & set(hello.capabilities)


def test_a_policy_is_refused_with_the_reason(controller: Controller) -> None:
    refused = controller.results[0]
    assert (refused.outcome, refused.policy) == (wire.Result.REFUSED, "default")
    assert "this kernel has no cache_ext" in refused.reason


def shown(controller: Controller, cgroup: str = "/t-a") -> list[wire.Tenant]:
    """Return the tenant from each snapshot that has it."""
    tenants = (tenant for snapshot in controller.snapshots for tenant in snapshot.tenants)
    return [tenant for tenant in tenants if tenant.cgroup == cgroup]


def test_tenants_are_found_and_learnt(controller: Controller) -> None:
    cgroups = {tenant.cgroup for s in controller.snapshots for tenant in s.tenants}
    assert cgroups == {"/t-a", "/t-quiet"}
    curves = [tenant.curves for tenant in shown(controller) if tenant.HasField("curves")]
    assert curves and "default" in curves[-1].policies


def test_limits_go_down_by_reclaim_and_up_at_once(
    controller: Controller, steps: dict[str, Told]
) -> None:
    outcomes = [result.outcome for result in controller.results[1:]]
    assert outcomes == [wire.Result.STARTED, wire.Result.APPLIED, wire.Result.APPLIED]
    tenants = shown(controller)
    limits = [tenant.limit_bytes for tenant in tenants]
    down = [limit for limit in limits[: limits.index(RAISED)] if limit]
    assert down[-1] == LIMIT and all(a >= b for a, b in pairwise(down))
    reached = next(tenant for tenant in tenants if tenant.limit_bytes == LIMIT)
    assert reached.counters.evictions_total > (24 - 16) * 256 // 2
    assert (steps["ended"]["high"], steps["ended"]["max"]) == ("max", "max")
    assert steps["ended"]["status"] == 0


def test_a_ring_that_ran_full_is_counted_and_its_curves_are_not_trusted(
    controller: Controller,
) -> None:
    lost = [s for s in controller.snapshots if s.loss.dropped_events_total > 0]
    assert lost
    first = next(t for s in lost for t in s.tenants if t.distrust.endswith("were dropped"))
    assert first.cgroup == "/t-a" and not first.trusted


def test_one_tenants_flood_costs_the_other_nothing(controller: Controller) -> None:
    quiet = shown(controller, "/t-quiet")
    assert quiet[-1].counters.accesses_total > 100
    assert not any(tenant.distrust.endswith("were dropped") for tenant in quiet)
