# SPDX-License-Identifier: Apache-2.0
"""The agent as installed, on the patched kernel and under controllers on this host.

It runs by the shipped systemd unit, and with the capabilities of the Kubernetes DaemonSet.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from experiments.autopilot.children import ChildError, Children, free_port
from scripted_controller import Controller, Story, until

from cachepilot import agent
from cachepilot.v1 import session_pb2 as wire
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
CONFIGS = HERE.parent.parent / "configs"
MIB = 1 << 20
BUDGET_MIB = 64
FILE_MIB = 24
LIMIT_MIB = 16
TRIAL_MIB = 32
TTL_S = 15.0
# As in ends_guest.py.
LEASE_S, WATCHDOG_S = 40.0, 90.0
NOTHING = {"policy": "none", "high": None}
HOST = "10.0.2.2"
UNIT = "cachepilot-agent.service"
NETWORK = ("-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0")
UNDER = ("unit", "daemonset")
Told = dict[str, Any]

pytestmark = pytest.mark.usefixtures("patched_kernel")


def agent_config(folder: Path, name: str, port: int) -> Path:
    """Write the configuration of an agent whose tenants are /t-*."""
    path = folder / f"{name}.toml"
    path.write_text(
        f"""node = "guest"
controller = "http://{HOST}:{port}"
insecure = true
kind = "cache_ext"
state_dir = "/var/lib/cachepilot/{name}"
metrics = ""
[kernel]
match = ["t-*"]
budget_bytes = {BUDGET_MIB * MIB}
margin_bytes = {2 * MIB}
step_bytes = {4 * MIB}
policy_memory_mib = 2
""",
        "utf-8",
    )
    return path


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Run a controller that decides nothing by itself. Return its gRPC and HTTP ports."""
    folder = tmp_path_factory.mktemp("controller")
    grpc, http = free_port(), free_port()
    config = folder / "controller.toml"
    config.write_text(
        f"""listen = "127.0.0.1:{grpc}"
http = "127.0.0.1:{http}"
store = "{folder / "controller.db"}"
lease_ms = {int(1000 * LEASE_S)}
""",
        "utf-8",
    )
    cli = (sys.executable, "-m", "cachepilot.cli")
    with Children(folder) as children:
        children.start("controller", [*cli, "controller", "run", "--config", config])
        deadline = time.monotonic() + 60
        while not healthy(f"http://127.0.0.1:{http}/healthz"):
            children.check()
            if time.monotonic() > deadline:
                raise ChildError("controller: not healthy after 60 s")
            time.sleep(0.1)
        yield grpc, http


def healthy(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def trial() -> Story:
    """Ask for another policy and another limit for /t-a, and confirm neither."""
    yield from until(lambda seen: seen.cgroup == "/t-a" and seen.policy == "lfu")
    yield {
        "policy": "sieve",
        "limit_bytes": TRIAL_MIB * MIB,
        "revert_to": wire.Setting(policy="lfu", limit_bytes=LIMIT_MIB * MIB),
        "ttl_ms": int(1000 * TTL_S),
    }


@pytest.fixture(scope="module")
def mortal() -> Iterator[Controller]:
    """Run a controller that dies once its change on trial is in force."""
    with Controller(trial, mortal=True) as controller:
        yield controller


def capabilities() -> str:
    """Return the capabilities of the DaemonSet's container, separated by commas."""
    daemon_set = yaml.safe_load((CONFIGS / "kubernetes" / "agent.yaml").read_text("utf-8"))
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    allowed = container["securityContext"]["capabilities"]
    assert allowed["drop"] == ["ALL"]
    return ",".join(allowed["add"])


@pytest.fixture(scope="module")
def steps(
    controller: tuple[int, int], mortal: Controller, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Told]:
    """Return what daemon_guest.py prints, by step."""
    grpc, http = controller
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ)
    folder = tmp_path_factory.mktemp("agent")
    configs = [agent_config(folder, "agent", grpc), agent_config(folder, "trial", mortal.port)]
    # One CPU: with several, the emulator fails on code that the kernel patches, as it does where
    # the sampler attaches.
    machine = Machine(
        cpus=1,
        shares=(folder,),
        disk_bytes=256 * MIB,
        environment=environment,
        qemu=NETWORK,
        timeout_seconds=1500.0,
    )
    installed = [program, environment["CACHEPILOT_BPF_DIR"], CONFIGS / "systemd" / UNIT]
    api = f"http://{HOST}:{http}/api/v1"
    words = [HERE / "daemon_guest.py", *installed, *configs, capabilities(), api]
    result = run(machine, ["/usr/bin/python3", *map(str, words)])
    assert result.returncode == 0, result.output[-2000:] + result.errors
    lines = map(json.loads, result.output.splitlines())
    return {line["step"]: line for line in lines}


def test_tenants_appear_with_their_curves(steps: dict[str, Told]) -> None:
    assert set(steps["curves"]["curves"]) == {"/t-a", "/t-b"}
    for curves in steps["curves"]["curves"].values():
        # The controller plans in units of its own, and the last unit extends beyond the budget.
        assert BUDGET_MIB * MIB <= curves["sizes_bytes"][-1] < 1.02 * BUDGET_MIB * MIB
        assert {"default", "lirs", "sieve"} <= set(curves["policies"])


def test_a_pinned_policy_decides_in_the_kernel(steps: dict[str, Told]) -> None:
    assert steps["policy"]["files"] == {"t-a": "lfu", "t-b": "none"}


def test_a_second_policy_is_attached_and_knows_the_named_task(steps: dict[str, Told]) -> None:
    assert len(steps["second"]["tasks"]) == 1


def test_a_policy_for_which_no_memory_is_left_is_a_refused_change(steps: dict[str, Told]) -> None:
    told = steps["refused"]
    assert "REFUSED: policy wtinylfu needs " in told["log"][0]
    assert "more than policy_memory_mib = 2 of [kernel] allows" in told["log"][0]
    assert told["policy"] == "get_scan"


def test_a_pinned_limit_is_reached_by_reclaim(steps: dict[str, Told]) -> None:
    told = steps["limit"]
    highs = [high for high, _ in told["steps"] if high is not None]
    assert highs == sorted(highs, reverse=True) and highs[-1] == LIMIT_MIB * MIB
    assert all(a - b <= 8 * MIB for a, b in pairwise(highs))
    assert told["max"] is None
    assert told["seen"]["pinned_limit_bytes"] == LIMIT_MIB * MIB


def test_systemd_starts_a_killed_agent_again_which_adopts_what_was_set(
    steps: dict[str, Told],
) -> None:
    for step in ("killed", "again"):
        assert (steps[step]["policy"], steps[step]["high"]) == ("lfu", LIMIT_MIB * MIB)
    again = steps["again"]
    assert again["ident"] in again["pins"]
    seen = again["seen"]["/t-a"]
    assert (seen["policy"], seen["limit_bytes"]) == ("lfu", LIMIT_MIB * MIB)
    assert seen["interference"] == ""
    ended = steps["ended"]
    assert (ended["Result"], ended["ExecMainStatus"], ended["policy"]) == ("success", "0", "lfu")


@pytest.mark.parametrize("under", UNDER)
def test_a_policy_is_detached_with_its_pins(steps: dict[str, Told], under: str) -> None:
    told = steps[f"{under} detached"]
    assert told["pinned"] and told["policy"] == "none"


@pytest.mark.parametrize("under", UNDER)
def test_pins_of_a_tenant_that_is_gone_are_removed(steps: dict[str, Told], under: str) -> None:
    told = steps[f"{under} removed"]
    assert told["pinned"] and told["tenants"] == ["/t-a", "/t-b"]
    assert (told["policy"], told["high"]) == ("lfu", LIMIT_MIB * MIB)


@pytest.mark.parametrize("under", UNDER)
def test_everything_is_given_back_when_the_lease_ends(steps: dict[str, Told], under: str) -> None:
    told = steps[f"{under} lease"]
    assert told["before"] == {"policy": "lfu", "high": LIMIT_MIB * MIB}
    assert (told["released"], told["pins"]) == (NOTHING, [])
    # The last plan may have come a few seconds before the connection was cut.
    assert LEASE_S - 10 <= told["seconds"] <= LEASE_S + 60


def test_the_unit_gives_nothing_back_while_the_lease_goes_on(steps: dict[str, Told]) -> None:
    told = steps["killed in lease"]
    assert (told["Result"], told["MainPID"]) == ("signal", "0")
    assert told["between"] == told["before"] == {"policy": "lfu", "high": LIMIT_MIB * MIB}
    assert told["still"] == {"SubState": "auto-restart"}


def test_the_watchdog_ends_a_stopped_agent_and_what_it_set_if_the_lease_has_ended(
    steps: dict[str, Told],
) -> None:
    told, watchdog = steps["stalled"], steps["watchdog"]
    # What ships, and the times with which the test does not take longer.
    assert watchdog["shipped"] == {"WatchdogUSec": "3min", "RestartUSec": "2s"}
    assert watchdog["used"]["WatchdogUSec"] == "1min 30s"
    assert told["before"] == {"policy": "lfu", "high": LIMIT_MIB * MIB}
    # No agent ran when this was seen: `release --if-lease-ended` of the unit gave it back.
    assert (told["Result"], told["MainPID"]) == ("watchdog", "0")
    assert (told["between"], told["still"]) == (NOTHING, {"SubState": "auto-restart"})
    ended, whole = told["seconds"]
    assert WATCHDOG_S / 2 - 10 <= ended <= whole


def test_the_agent_ends_as_asked_with_the_capabilities_of_the_daemon_set(
    steps: dict[str, Told],
) -> None:
    assert steps["daemonset ended"]["status"] == 0


def test_a_release_in_a_private_cgroup_namespace_forgets_nothing(steps: dict[str, Told]) -> None:
    told = steps["elsewhere"]
    assert told["status"] == 1, told
    left = {one["cgroup"]: one for one in told["told"]}
    assert left["/t-a"]["outcome"] == "FAILED"
    assert "saw another part of the cgroup hierarchy" in left["/t-a"]["reason"]
    assert told["after"] == told["before"] == {"policy": "lfu", "high": LIMIT_MIB * MIB}


def test_an_unconfirmed_change_is_undone_when_the_controller_is_gone(
    steps: dict[str, Told], mortal: Controller
) -> None:
    told = steps["trial"]
    assert [wire.Result.Outcome.Name(one.outcome) for one in mortal.results] == ["APPLIED"]
    assert told["before"] == {"policy": "lfu", "high": LIMIT_MIB * MIB}
    assert told["changed"] == {"policy": "sieve", "high": TRIAL_MIB * MIB}
    assert told["back"] == told["before"]
    # Not before the deadline; then reclaim takes some time on an emulated processor.
    assert TTL_S - 2 <= told["seconds"] <= TTL_S + 40
