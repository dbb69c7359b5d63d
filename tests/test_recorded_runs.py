# SPDX-License-Identifier: Apache-2.0
"""Replay recorded runs: an optimisation of the control cycle must not change any decision.

After a deliberate change of the decision rules, replace the recordings by the file that the failure
names.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from experiments.control_loop.cycle import looped
from experiments.control_loop.node import CANDIDATES, Node
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear, power, scan
from experiments.control_loop.sampling import Sampling
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective
from cachepilot.node.loop import NodeLoop
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

NUMBER = re.compile(r"\d+(?:\.\d+)?")
RECORDED = Path(__file__).parent / "recorded_runs"
SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))


def told_of(plan: wire.Plan) -> Iterator[str]:
    """Yield one line per action of a plan."""
    for one in plan.actions:
        back = one.revert_to
        yield (
            f"{plan.snapshot} {one.cgroup} {one.policy} {one.limit_bytes} "
            f"back {back.policy} {back.limit_bytes} ttl {one.ttl_ms}"
        )


def told_at_last(loop: NodeLoop, store: Store) -> Iterator[str]:
    """Yield the decisions with their numbers, and the predictions of the last plan."""
    for one in reversed(store.history(None, None, 1000)):
        # Of the reasons only the numbers count: the wording may change.
        values = astuple(replace(one, why=" ".join(NUMBER.findall(one.why))))
        told = (f"{value:.9g}" if isinstance(value, float) else str(value) for value in values)
        yield " ".join(told)
    report = loop.report
    assert report is not None and report.plan is not None
    for action in report.plan.actions:
        setting = f"{action.policy} {action.limit_bytes} {action.held}"
        yield f"{action.cgroup} {setting} {action.throughput_ops:.9g} {action.kept_ops:.9g}"


def scattering() -> Iterator[str]:
    """Yield a run with counters that scatter, new curves, and plans that are obeyed."""
    node = Node(7, 12, CANDIDATES)
    with looped(node.hello) as (loop, store):
        for _ in range(60):
            plan = loop.cycle(node.report())
            yield from told_of(plan)
            loop.after()
            loop.acknowledge(node.obey(plan))
        yield from told_at_last(loop, store)


def contended(path: Path) -> Iterator[str]:
    """Yield a run with SLOs, gains, keeps, a wrong curve, a new regime, and two restarts.

    For 30 intervals the curve of one tenant has low confidence.
    """
    sample = [Sampling(seed, rate=0.1, kept=0.5) for seed in range(6)]
    loop_curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    slo_curves = {"default": linear(300 * MIB), "mru": linear(320 * MIB)}
    tenants = [
        PlantTenant("/gain", {"default": linear(400 * MIB)}, 128 * MIB, threads=64),
        PlantTenant("/loop", loop_curves, 128 * MIB, reread_pages=900.0),
        PlantTenant("/sated", {"default": linear(16 * MIB, 0.02)}, 128 * MIB),
        PlantTenant("/slo", slo_curves, 128 * MIB, accesses_per_op=2.0),
        PlantTenant("/wrong", {"default": linear(150 * MIB)}, 128 * MIB),
        PlantTenant("/tail", {"default": power(8 * MIB, 0.4), "mru": flat(0.9)}, 96 * MIB),
    ]
    for one, sampling in zip(tenants, sample, strict=True):
        one.sampling = sampling
    tenants[4].told = {"default": linear(16 * MIB, 0.02)}
    plant = Plant(tenants, 768 * MIB, SIZES, noise=0.03, adapt_s=2.0, shrink_bytes=24 * MIB)
    objectives = (
        Objective("/slo", throughput_ops=7000.0, priority=1),
        Objective("/tail", keep=0.95),
        Objective("*"),
    )
    here = World(path, plant, objectives)
    told: list[str] = []
    apply = plant.apply

    def listen(plan: wire.Plan) -> wire.Ack:
        told.extend(told_of(plan))
        return apply(plan)

    plant.apply = listen  # type: ignore[method-assign]
    here.run(90)
    here.restart()
    plant.of("/slo").change({"default": linear(420 * MIB), "mru": linear(430 * MIB)})
    here.run(60)
    plant.of("/loop").distrust = "too few samples"
    here.run(30)
    here.restart_agent()
    plant.of("/loop").distrust = ""
    plant.of("/loop").change({"default": linear(90 * MIB), "mru": scan(200 * MIB)})
    here.run(90)
    yield from told
    yield from told_at_last(here.loop, here.store)
    here.store.close()


RUNS: dict[str, Callable[[Path], Iterator[str]]] = {
    "scattering": lambda _: scattering(),
    "contended": contended,
}


@pytest.mark.parametrize("name", RUNS)
def test_decisions_are_those_of_the_recording(name: str, tmp_path: Path) -> None:
    found = "".join(f"{line}\n" for line in RUNS[name](tmp_path))
    now = tmp_path / f"{name}.txt"
    now.write_text(found)
    assert found == (RECORDED / now.name).read_text(), f"what was decided now is in {now}"
