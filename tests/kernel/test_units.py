# SPDX-License-Identifier: Apache-2.0
"""Limits of systemd units, set by a real systemd on the patched kernel."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cachepilot import agent
from cachepilot.vm import Machine, run

HERE = Path(__file__).parent
UNIT = HERE.parent.parent / "configs" / "systemd" / "cachepilot-agent.service"
OWN, CHILD = "/system.slice/t-own.service", "/system.slice/t-delegated.service/child"
MIB = 1 << 20
FIRST, LIMIT = str(60 * MIB), str(40 * MIB)
Told = dict[str, Any]

pytestmark = pytest.mark.usefixtures("patched_kernel")


@pytest.fixture(scope="module")
def steps(node: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """Return what units_guest.py prints, by step."""
    program = agent.find(os.environ)
    environment = agent.environment_for(program, os.environ)
    folder = tmp_path_factory.mktemp("units")
    config = folder / "agent.toml"
    config.write_text("", "utf-8")
    machine = Machine(cpus=1, shares=(folder,), disk_bytes=64 * MIB, environment=environment)
    installed = [program, environment["CACHEPILOT_BPF_DIR"], UNIT, config, node]
    words = [HERE / "units_guest.py", *installed]
    result = run(machine, ["/usr/bin/python3", *map(str, words)])
    assert result.returncode == 0, result.output[-2000:] + result.errors
    lines = map(json.loads, result.output.splitlines())
    return {line["step"]: line for line in lines}


def test_the_limit_of_a_unit_is_its_property(steps: dict[str, Told]) -> None:
    told = steps["set"]
    assert told["first"] == {"unit": FIRST, "file": FIRST}
    assert told["asked"]["outcome"] in ("APPLIED", "STARTED")
    assert told["now"] == {"unit": LIMIT, "file": LIMIT}


def test_systemd_does_not_write_over_it(steps: dict[str, Told]) -> None:
    told = steps["reloaded"]
    assert told["now"] == {"unit": LIMIT, "file": LIMIT}
    conditions = told["seen"]["tenants"][OWN]["conditions"]
    assert {one["kind"] for one in conditions} <= {"OTHER_MANAGER"}


def test_systemd_has_its_own_value_back_after_a_release(steps: dict[str, Told]) -> None:
    assert steps["released"]["now"] == {"unit": FIRST, "file": FIRST}
    assert steps["released"]["seen"]["tenants"][OWN]["interference"] == ""


def test_a_unit_that_was_restarted_has_its_own_value_back(steps: dict[str, Told]) -> None:
    told = steps["restarted"]
    # systemd starts the unit with the property that was set for its previous run.
    assert told["inherited"] == {"unit": LIMIT, "file": LIMIT}
    assert told["now"] == {"unit": FIRST, "file": FIRST}
    assert told["seen"]["tenants"][OWN]["initial_limit_bytes"] == 60 * MIB


def test_a_cgroup_below_a_delegated_unit_is_written_to(steps: dict[str, Told]) -> None:
    told = steps["delegated"]
    assert told["asked"]["outcome"] in ("APPLIED", "STARTED")
    assert told["now"] == {"unit": "infinity", "file": LIMIT}
    assert told["after"] == {"unit": "infinity", "file": "max"}


def test_units_that_systemd_oomd_may_kill_are_reported(steps: dict[str, Told]) -> None:
    conditions = steps["reloaded"]["seen"]["tenants"][OWN]["conditions"]
    expected = "systemd-oomd may kill it: ManagedOOMMemoryPressure=kill of t-own.service"
    assert [one["message"] for one in conditions] == [expected]


def test_the_doctor_lists_other_programs_that_manage_memory(steps: dict[str, Told]) -> None:
    checks = steps["doctor"]["checks"]
    assert checks["systemd"]["status"] == "works"
    assert checks["ManagedOOM"]["status"] == "note"
    assert "t-own.service: ManagedOOMMemoryPressure" in checks["ManagedOOM"]["detail"]
    assert f"{OWN} ({FIRST})" in checks["limits of others"]["detail"]
