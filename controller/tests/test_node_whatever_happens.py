# SPDX-License-Identifier: Apache-2.0
"""What the decider never does, whatever curves predict and whatever happens."""

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, linear, power, scan
from experiments.control_loop.world import World
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Event
from cachepilot.node.deciding.decider import NodeState

SIZES = tuple(MIB * size for size in (8, 32, 64, 128, 256, 512))
POLICIES = ("default", "lfu", "mru")
ALPHA = DecideConfig().alpha
FINAL = (Event.KEPT, Event.REVERTED, Event.ABANDONED, Event.REFUSED)
curves = st.one_of(
    st.builds(scan, st.integers(16, 400).map(lambda size: size * MIB)),
    st.builds(linear, st.integers(16, 400).map(lambda size: size * MIB), st.floats(0, 0.5)),
    st.builds(power, st.integers(1, 64).map(lambda size: size * MIB), st.floats(0.2, 1.5)),
)
phases = st.lists(curves, min_size=3, max_size=3).map(
    lambda found: dict(zip(POLICIES, found, strict=True))
)


@st.composite
def plants(draw: st.DrawFn) -> Plant:
    tenants = []
    for i in range(draw(st.integers(1, 3))):
        truth: dict[str, Curve] = draw(phases)
        told: dict[str, Curve] = draw(st.one_of(st.just({}), phases))
        tenants.append(PlantTenant(f"/t{i}", truth, 128 * MIB, told, accesses_per_op=20))
    shrink = draw(st.sampled_from((2 * MIB, 1 << 40)))
    budget = 128 * MIB * len(tenants)
    return Plant(tenants, budget, SIZES, shrink_bytes=shrink, seed=draw(st.integers(0, 99)))


happenings = st.lists(
    st.tuples(
        st.sampled_from(("run", "phase", "distrust", "trust", "refuse", "gap", "restart", "load")),
        st.integers(0, 2),
        phases,
    ),
    max_size=5,
)


def happen(world: World, what: str, which: int, later: dict[str, Curve]) -> None:
    plant = world.plant
    tenant = plant.tenants[which % len(plant.tenants)]
    if what == "phase":
        tenant.change(later)
    elif what == "distrust":
        tenant.distrust = "for no reason"
    elif what == "trust":
        tenant.distrust = ""
    elif what == "refuse":
        plant.refuse = {} if plant.refuse else {tenant.cgroup: "EBUSY"}
    elif what == "gap":
        plant.pass_time(20.0)
    elif what == "restart":
        world.restart()
    elif what == "load":
        tenant.threads = 4.0 if tenant.threads < 4 else 1.0


def gains(trial: Trial | None) -> bool:
    """Whether a change gains for minutes, and only its origin's calibration is too uncertain."""
    return trial is not None and trial.intervals >= 100 and trial.gained > trial.bound(ALPHA)


def is_active(state: NodeState) -> bool:
    """Whether a change that could be confirmed is not, or is on its rollback."""
    policies = [one.policy for one in state.tenants.values()]
    trials = [one.trial for one in policies if one.trial is not None and not gains(one.trial)]
    is_on_trial = bool(trials) or any(one.wanted for one in policies)
    return is_on_trial or state.memory.change is not None or bool(state.memory.restore)


@settings(max_examples=6)
@given(plants(), happenings)
def test_bounds_hold_and_every_trial_ends(
    plant: Plant, story: list[tuple[str, int, dict[str, Curve]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), plant)
        world.run(6)
        for what, which, later in story:
            happen(world, what, which, later)
            world.run(6)
            assert plant.most_assigned_bytes <= plant.budget_bytes
        plant.refuse = {}
        for tenant in plant.tenants:
            tenant.distrust = "the end"
        # A small gain that scatters is on trial for minutes; without data it takes ten minutes.
        for _ in range(100):
            if is_active(world.loop._decider.state):
                world.run(8)
        assert not is_active(world.loop._decider.state)
        assert plant.most_assigned_bytes <= plant.budget_bytes
        _check_decisions(world)
        world.store.close()


def _check_decisions(world: World) -> None:
    """Check that every tenant is under the policy of its last decision."""
    told = list(reversed(world.service.history(limit=10_000)))
    assert all(first.id < second.id for first, second in pairwise(told))
    for tenant in world.plant.tenants:
        policies = [
            one for one in told if one.cgroup == tenant.cgroup and one.from_policy != one.to_policy
        ]
        # A refused rollback is asked for until it is in force, or the default instead.
        refused = [one for one in policies if "requested again" in one.why]
        policies = [one for one in policies if one not in refused]
        # A rollback is no trial.
        trials = [one for one in policies if "pages again" not in one.why or one.event == "trial"]
        counted = Counter(one.event for one in trials)
        state = world.loop._decider.state.tenants[tenant.cgroup].policy
        assert counted[Event.TRIAL] == sum(counted[event] for event in FINAL) + gains(state.trial)
        if state.trial is not None:
            assert tenant.policy == state.trial.to_policy
        elif policies:
            last = policies[-1]
            kept = last.event == Event.KEPT or "the workload changed" in last.why
            expected = last.to_policy if kept else last.from_policy
            assert tenant.policy in ({expected, "default"} if refused else {expected})
        else:
            assert tenant.policy == "default"


@pytest.mark.parametrize(("missed", "is_tried"), [(0.0001, False), (0.05, True)])
def test_no_policy_is_tried_on_a_tenant_that_hardly_misses(
    tmp_path: Path, missed: float, is_tried: bool
) -> None:
    truth: dict[str, Curve] = {"default": lambda _: missed, "lfu": lambda _: missed}
    told: dict[str, Curve] = {"default": lambda _: 0.05, "lfu": lambda _: 0.01}
    tenant = PlantTenant("/hits", truth, 128 * MIB, told=told, error_bar=0.001)
    here = World(tmp_path, Plant([tenant], 128 * MIB, SIZES))
    here.run(40)
    assert ("trial" in here.events()) is is_tried
