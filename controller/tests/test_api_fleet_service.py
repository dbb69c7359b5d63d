# SPDX-License-Identifier: Apache-2.0
"""What the service answers and refuses, and the controller as a process."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.api import fleet_service
from cachepilot.api.service import Service, UnknownError
from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.api.shapes.questions import Pin
from cachepilot.api.shapes.views import TenantView
from cachepilot.api.views import tenant_view
from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.errors import InputError
from cachepilot.node.shown.report import Report

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))


@pytest.fixture
def world(tmp_path: Path) -> World:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    plant = Plant([PlantTenant("/a", curves, 128 * MIB)], 256 * MIB, SIZES)
    found = World(tmp_path, plant, [Objective("/a", hit_ratio=0.9), Objective("*")])
    found.run(3)
    return found


def test_a_tenant_is_shown_with_the_memory_that_its_slo_needs(world: World) -> None:
    service: Service = world.service
    detail = service.tenant("/a", "plant")
    assert detail.best_policy == "lfu"
    # The miss ratio 0.1 lies between 128 MiB, with 0.36, and 256 MiB, with 0.
    wanted = 128 * MIB * (1 + 0.26 / 0.36)
    assert detail.needed_for_slo_bytes == pytest.approx(wanted, abs=4096)
    assert detail.curves is not None and detail.curves.policies == ["default", "lfu"]
    assert detail.demand is not None and detail.why
    row = detail.tenant
    assert (row.node, row.cgroup, row.mode, row.indicator) == ("plant", "/a", "auto", "read_calls")
    assert row.hit_ratio is not None and row.slos[0].attainment == 0.0
    assert [one.cgroup for one in service.tenants()] == ["/a"]
    node = service.nodes()[0]
    assert (node.name, node.tenants, node.problem) == ("plant", 1, "")


def test_rows_that_several_requests_need_at_once_are_made_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def slowly(node: str, report: Report, cgroup: str) -> TenantView:
        made.append(cgroup)
        time.sleep(0.05)
        return tenant_view(node, report, cgroup)

    monkeypatch.setattr(fleet_service, "tenant_view", slowly)
    with ThreadPoolExecutor() as pool:
        rows = [one.result() for one in [pool.submit(world.service.tenants) for _ in range(4)]]
    assert made == ["/a"] and all(one == rows[0] for one in rows)


def test_rows_made_unchecked_pass_every_check(world: World) -> None:
    world.service.set_objective(Objective("*", weight=2))
    world.run(1)
    row = world.service.tenants()[0]
    told = row.model_dump()
    assert told.keys() == TenantView.model_fields.keys()
    checked = TenantView.model_validate(told, strict=True)
    assert checked == row
    assert checked.model_dump_json() == row.model_dump_json()


def test_objectives_change_one_by_one_and_are_stored(world: World) -> None:
    world.service.set_objective(Objective("/b", weight=2))
    world.service.set_objective(Objective("/a", weight=3))
    assert [(one.pattern, one.weight) for one in world.service.objectives().tenants] == [
        ("/a", 3),
        ("*", 1),
        ("/b", 2),
    ]
    world.service.delete_objective("/a")
    with pytest.raises(UnknownError, match=r"/a: unknown \(known: \*, /b\)"):
        world.service.delete_objective("/a")
    world.restart()
    assert [one.pattern for one in world.service.objectives().tenants] == ["*", "/b"]


def test_the_whole_objective_that_applies_is_shown(world: World) -> None:
    told = '[[tenant]]\ncgroup = "/?"\nmode = "observe"\nindicator = "block_reads"\n'
    told += 'memory_min = "8MiB"\npolicies = ["lfu"]\n'
    glob = parse_objectives(told, "o.toml").tenants[0]
    service = world.service
    service.set_objectives(Objectives((glob,)))
    detail = service.tenant("/a")
    assert detail.stated == detail.inherited == ObjectiveShape.of(glob)
    assert detail.stated is not None and detail.stated.objective() == glob
    # A statement for exactly its path takes precedence at once, and the answer shows what it hides.
    service.set_objective(Objective("/a", weight=3))
    detail = service.tenant("/a")
    assert detail.stated == ObjectiveShape(cgroup="/a", weight=3)
    assert detail.inherited == ObjectiveShape.of(glob)
    service.set_objectives(Objectives((Objective("/other"),)))
    detail = service.tenant("/a")
    assert detail.stated is None and detail.inherited is None


def test_an_unknown_name_is_refused_with_the_known_ones(world: World) -> None:
    service = world.service
    with pytest.raises(UnknownError, match=r"tenant /x: unknown \(known: /a\)"):
        service.tenant("/x")
    with pytest.raises(UnknownError, match=r"node m: unknown \(known: plant\)"):
        service.tenants("m")
    with pytest.raises(UnknownError, match="pin /a on all nodes: unknown"):
        service.unpin("/a")
    with pytest.raises(InputError, match=r"'mru' cannot be attached .*default, lfu"):
        service.pin(Pin(cgroup="/a", policy="mru"))
    with pytest.raises(InputError, match="needs a policy"):
        service.pin(Pin(cgroup="/a"))
    with pytest.raises(InputError, match="limit 1 B is below"):
        service.pin(Pin(cgroup="/a", limit_bytes=1))
    with pytest.raises(InputError, match="limit: 0"):
        service.history(limit=0)


def test_a_tenant_on_two_nodes_must_be_named_with_its_node(world: World) -> None:
    other = Plant([PlantTenant("/a", {"default": linear(MIB)}, MIB)], MIB, SIZES)
    loop = world.fleet.join("other")
    loop.begin(other.hello())
    other.pass_time()
    loop.cycle(other.snapshot())
    with pytest.raises(InputError, match=r"on several nodes \(allowed: other, plant\)"):
        world.service.tenant("/a")
    assert world.service.tenant("/a", "other").tenant.node == "other"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_cleanly_on_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "c.toml"
    path.write_text('listen = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\nstore = "c.db"\n')
    code = (
        "import logging, sys; from pathlib import Path; from cachepilot.api.main import run;"
        "logging.basicConfig(level='INFO'); run(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "agents are expected" in line:
                break
        process.send_signal(how)
        assert process.wait(30) == 0
    assert (tmp_path / "c.db").is_file()
